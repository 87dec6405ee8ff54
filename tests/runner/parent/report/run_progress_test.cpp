#include "runner/parent/report/run_progress.h"

#include <gtest/gtest.h>

#include "runner/shared/record/recorded_run.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

std::string metric(const std::string& name, double value, int step, double time) {
  return R"({"node":"train","name":")" + name + R"(","value":)" + std::to_string(value) +
         ",\"step\":" + std::to_string(step) + ",\"time\":" + std::to_string(time) + "}\n";
}

class RunProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("summary.json", R"({"status": "running"})");
    folder_.write(".retort/graph.json",
                  R"({"nodes": [{"id": "data"}, {"id": "train", "options": {"epochs": 10}}]})");
    auto lock = RunLock::take(folder_.path());
    ASSERT_TRUE(lock);
    at_work_.emplace(*std::move(lock));
  }
  RunProgress now() const { return run_progress(folder_.path()); }
  TemporaryFolder folder_;
  std::optional<RunLock> at_work_;
};

TEST_F(RunProgressTest, UnlockedRunIsInterrupted) {
  folder_.write("metrics.jsonl", metric("train/loss", 2, 1, 3));
  EXPECT_EQ(now().status, "running");
  at_work_.reset();
  EXPECT_EQ(now().status, "interrupted");
  EXPECT_FALSE(now().seconds_left);
  EXPECT_EQ(now().silent_seconds, 0) << "it is not running";
}

TEST_F(RunProgressTest, RunWithoutAFolderHasNotBegun) {
  const RunProgress run = run_progress(folder_ / "no");
  EXPECT_EQ(run.status, "");
  EXPECT_EQ(run.epoch, 0);
}

TEST_F(RunProgressTest, FirstEpochHasNoTimeYet) {
  folder_.write("metrics.jsonl", metric("train/loss", 2, 1, 3) + metric("memory/peak", 1024, 1, 3));
  const RunProgress run = now();
  EXPECT_EQ(run.status, "running");
  EXPECT_EQ(run.node, "train");
  EXPECT_EQ(run.epoch, 1);
  EXPECT_EQ(run.epochs, 10);
  EXPECT_EQ(run.step, 1);
  EXPECT_EQ(run.metric, "train/loss");
  EXPECT_EQ(run.value, 2);
  EXPECT_EQ(run.memory_bytes, 1024);
  EXPECT_FALSE(run.seconds_left);
}

TEST_F(RunProgressTest, TimeLeftIsEstimatedFromTheFinishedEpochs) {
  folder_.write("nodes/train/training_metrics.json", R"({"epoch_times": [4.0, 6.0]})");
  folder_.write("metrics.jsonl", metric("train/epoch_loss", 1, 20, 12) +
                                     metric("validation/accuracy", 0.5, 20, 12) +
                                     metric("train/loss", 0.9, 22, 13.5));
  const RunProgress run = now();
  EXPECT_EQ(run.epoch, 3);
  EXPECT_EQ(run.seconds_left, 8 * 5 - 1.5);
  EXPECT_EQ(run.metric, "validation/accuracy") << "tells more than a loss";
}

TEST_F(RunProgressTest, FinishedRunShowsItsEvaluation) {
  folder_.write("summary.json", R"({"status": "finished"})");
  folder_.write("nodes/train/training_metrics.json", R"({"epoch_times": [4.0]})");
  folder_.write("metrics.jsonl",
                metric("validation/accuracy", 0.5, 20, 12) + metric("evaluate/top1", 0.25, 20, 13));
  const RunProgress run = now();
  EXPECT_EQ(run.metric, "evaluate/top1");
  EXPECT_FALSE(run.seconds_left);
  EXPECT_EQ(run.silent_seconds, 0);
}

TEST_F(RunProgressTest, OnlyTheEndOfALongFileIsRead) {
  std::string text = metric("validation/accuracy", 0.9, 1, 1);
  while (text.size() < (100 << 10)) text += metric("train/loss", 2, 1, 3);
  folder_.write("metrics.jsonl", text + metric("train/loss", 1, 5, 9) + "{\"node\":\"tra");
  const RunProgress run = now();
  EXPECT_EQ(run.metric, "train/loss");
  EXPECT_EQ(run.value, 1) << "an incomplete line is ignored";
  EXPECT_EQ(run.step, 5);
}

TEST_F(RunProgressTest, SilenceIsMeasuredFromTheLastMetric) {
  folder_.write("metrics.jsonl", metric("train/loss", 2, 1, 3));
  std::filesystem::last_write_time(
      folder_ / "metrics.jsonl",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_GE(now().silent_seconds, 3600);
}

TEST_F(RunProgressTest, MalformedFilesAreIgnored) {
  for (const char* text : {"", "[]", "null", "{\"nodes\": 3}", "{\"epoch_times\": {}}"}) {
    folder_.write(".retort/graph.json", text);
    folder_.write("nodes/train/training_metrics.json", text);
    folder_.write("metrics.jsonl", metric("train/loss", 2, 1, 3) + text +
                                       "\n{\"node\":1,\"name\":\"a\",\"value\":1}\n");
    EXPECT_EQ(now().value, 2) << text;
    EXPECT_EQ(now().epoch, 0) << text;
    folder_.write("summary.json", text);
    EXPECT_EQ(now().status, "") << text;
    folder_.write("summary.json", R"({"status": "running"})");
  }
}

}  // namespace
}  // namespace runner
