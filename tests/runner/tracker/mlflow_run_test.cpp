#include "runner/tracker/mlflow_run.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/record/metrics_file.h"
#include "tests/support/mlflow_server.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Pair;

class MlflowRunTest : public testing::Test {
 protected:
  TrackedRun described(std::map<std::string, std::string> params = {{"train.epochs", "5"}}) const {
    return {.metrics = folder_ / "metrics.jsonl",
            .state = folder_ / "mlflow.json",
            .name = "classify 1",
            .began = 1700000000000,
            .params = std::move(params),
            .tags = {{"mlflow.user", "anna"}}};
  }
  MlflowRun run(TrackedRun what) const { return {server_, {}, std::move(what)}; }
  /// Appends losses of the node, the first of them at `time`.
  void measure(std::initializer_list<double> losses, double time = 1, std::int64_t step = 1) {
    if (!file_) file_.emplace(MetricsFile::make(folder_ / "metrics.jsonl", disk()));
    for (const double loss : losses) file_->append({"train", "train/loss", loss, step++}, time++);
  }
  static void send_all(MlflowRun& run) {
    run.begin();
    while (run.send_next()) {
    }
  }
  std::size_t asked(const std::string& method) const {
    std::size_t count = 0;
    for (const SeenRequest& request : mlflow_.seen())
      count += request.target == "/api/2.0/mlflow/" + method;
    return count;
  }

  TemporaryFolder folder_;
  FakeMlflow mlflow_;
  MlflowServer server_{{.address = mlflow_.url()}, {}};
  std::optional<MetricsFile> file_;
};

TEST_F(MlflowRunTest, IsCreatedWithParametersTagsAndMetrics) {
  measure({0.5, NAN, INFINITY});
  MlflowRun tracked = run(described());
  send_all(tracked);
  tracked.end("FINISHED", 1700000009000);
  const FakeMlflow::Run made = mlflow_.run();
  EXPECT_EQ(made.name, "classify 1");
  EXPECT_EQ(made.status, "FINISHED");
  EXPECT_THAT(made.params, Contains(Pair("train.epochs", "5")));
  EXPECT_THAT(made.tags, Contains(Pair("mlflow.user", "anna")));
  EXPECT_THAT(made.metrics,
              testing::ElementsAre(std::tuple("train/loss", 1, 1700000001000, "0.5"),
                                   std::tuple("train/loss", 2, 1700000002000, "\"NaN\""),
                                   std::tuple("train/loss", 3, 1700000003000, "\"Infinity\"")));
}

TEST_F(MlflowRunTest, BatchesStayWithinTheLimits) {
  std::map<std::string, std::string> params;
  for (int i = 0; i < 250; ++i) params["p" + std::to_string(i)] = std::string(7000, 'x');
  file_.emplace(MetricsFile::make(folder_ / "metrics.jsonl", disk()));
  for (int i = 0; i < 2500; ++i) file_->append({"train", "train/loss", 1, i}, i);
  MlflowRun tracked = run(described(params));
  send_all(tracked);
  EXPECT_EQ(mlflow_.run().params.size(), 250u);
  EXPECT_THAT(mlflow_.run().params.at("p0"), testing::EndsWith("… (cut)"));
  EXPECT_EQ(mlflow_.run().metrics.size(), 2500u);
  for (const SeenRequest& request : mlflow_.seen()) EXPECT_LT(request.body.size(), 1'000'000u);
}

TEST_F(MlflowRunTest, ResumedRunContinuesTheSameRun) {
  measure({0.5, 0.4, 0.3});
  {
    MlflowRun killed = run(described());
    send_all(killed);
    killed.save();
  }
  file_->rewind("train", 1);
  measure({0.4}, 20, 2);
  MlflowRun resumed = run(described({{"train.epochs", "9"}, {"train.ema", "0.9"}}));
  send_all(resumed);
  measure({0.3, 0.2}, 21, 3);
  send_all(resumed);
  EXPECT_EQ(mlflow_.runs().size(), 1u);
  EXPECT_EQ(mlflow_.run().count("train/loss"), 4u) << "measured again with the same values";
  EXPECT_THAT(mlflow_.run().params, Contains(Pair("train.epochs", "5")));
  EXPECT_THAT(mlflow_.run().params, Contains(Pair("train.ema", "0.9")));
  EXPECT_THAT(mlflow_.run().tags, Contains(Pair("retort.resumed.train.epochs", "9")));
}

TEST_F(MlflowRunTest, ChangedValuesOfAResumedRunAreSent) {
  measure({0.5, 0.4});
  {
    MlflowRun killed = run(described());
    send_all(killed);
    killed.save();
  }
  file_->rewind("train", 1);
  measure({0.1}, 20, 2);
  MlflowRun resumed = run(described());
  send_all(resumed);
  EXPECT_EQ(mlflow_.run().count("train/loss"), 3u);
  file_->rewind("train", 0);
  measure({0.7}, 30);
  send_all(resumed);
  EXPECT_EQ(mlflow_.run().count("train/loss"), 3u) << "the node may still measure the other one";
  resumed.complete();
  send_all(resumed);
  EXPECT_EQ(mlflow_.run().count("train/loss"), 4u);
}

TEST_F(MlflowRunTest, LostAnswerDoesNotCreateASecondRun) {
  mlflow_.fail("runs/create", 500, /*is_done=*/true);
  MlflowRun tracked = run(described());
  EXPECT_THROW(tracked.begin(), TrackingError);
  mlflow_.recover();
  tracked.begin();
  EXPECT_EQ(mlflow_.runs().size(), 1u);
}

TEST_F(MlflowRunTest, SecondExportSendsNothingTwice) {
  measure({0.5, 0.4});
  for (int i = 0; i < 2; ++i) {
    MlflowRun exported = run(described());
    send_all(exported);
    exported.complete();
    EXPECT_FALSE(exported.send_next());
    exported.end("FINISHED", 1700000009000);
  }
  EXPECT_EQ(mlflow_.runs().size(), 1u);
  EXPECT_EQ(mlflow_.run().metrics.size(), 2u);
}

TEST_F(MlflowRunTest, RunRemovedFromTheServerIsSentAgain) {
  measure({0.5});
  MlflowRun first = run(described());
  send_all(first);
  first.save();
  mlflow_.forget_runs();
  MlflowRun again = run(described());
  send_all(again);
  EXPECT_EQ(mlflow_.run().metrics.size(), 1u);
  EXPECT_THAT(mlflow_.run().params, Contains(Key("train.epochs")));
}

TEST_F(MlflowRunTest, TrialsShareTheRunOfTheirSweep) {
  const TrackedRun sweep{.state = folder_ / "sweep.json", .name = "sweep", .began = 1};
  for (const char* trial : {"0", "1"}) {
    TrackedRun one = described();
    one.state = folder_ / (std::string(trial) + ".json");
    MlflowRun(server_, {}, one, sweep).begin();
  }
  ASSERT_EQ(mlflow_.runs().size(), 3u);
  EXPECT_EQ(mlflow_.run(1).name, "sweep");
  for (const std::size_t trial : {0, 2})
    EXPECT_THAT(mlflow_.run(trial).tags, Contains(Pair("mlflow.parentRunId", mlflow_.run(1).id)));
}

TEST_F(MlflowRunTest, ExperimentIsFoundOrCreatedByItsName) {
  MlflowRun(server_, {.name = "flowers"}, described()).begin();
  EXPECT_EQ(mlflow_.run().experiment, "1");
  TrackedRun other = described();
  other.state = folder_ / "other.json";
  MlflowRun(server_, {.name = "flowers"}, other).begin();
  EXPECT_EQ(mlflow_.run(1).experiment, "1");
  EXPECT_EQ(asked("experiments/create"), 1u);
}

}  // namespace
}  // namespace runner
