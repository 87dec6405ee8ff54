// End-to-end tests of reusing the results of earlier runs.

#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Reuse : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 8 --size 32 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write(
        "r.yaml",
        "schema: 1\n"
        "device: cpu\n"
        "threads: 1\n"
        "defaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, {train: "
        "from_scratch}, _self_]\n"
        "data: {root: photos, image_size: 24, augment: {random_resized_crop: null, "
        "horizontal_flip: 0}}\n"
        "model: {hidden_size: 16, intermediate_size: 16, num_hidden_layers: 1, patch_size: 12}\n"
        "train: {epochs: 1, batch_size: 8}\n"
        "evaluate: {kind: evaluate.classification}\n");
    folder_.keep();
  }
  Ended verb(const std::string& words) {
    return run_shell("RETORT_CACHE=$PWD/cache " RETORT_BINARY_DIR "/bin/retort " + words,
                     folder_.path());
  }
  Ended run(const std::string& name, const std::string& words = "") {
    return verb("run r.yaml run.dir=" + name + " " + words);
  }
  nlohmann::json summary(const std::string& name) {
    return nlohmann::json::parse(file_text(folder_ / name / "summary.json"));
  }
  /// The metrics without the memory metrics, which depend on how early the loader reads each batch.
  nlohmann::json metrics(const std::string& name) {
    nlohmann::json metrics = summary(name)["metrics"];
    auto& train = metrics["train"];
    for (auto one = train.begin(); one != train.end();) {
      if (one.key().starts_with("memory/")) one = train.erase(one);
      else ++one;
    }
    return metrics;
  }
  fs::path first_image() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "photos")) {
      if (entry.path().extension() == ".jpg") return entry.path();
    }
    return {};
  }
  SharedFolder folder_;
};

TEST_F(Reuse, SecondRunReusesEverythingOnRequest) {
  ASSERT_EQ(run("a").exit, 0);
  const Ended again = run("b", "--reuse");
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("train: reused from a\n"));
  EXPECT_THAT(again.err, HasSubstr("evaluate: reused from a\n"));
  const auto a = summary("a"), b = summary("b");
  EXPECT_EQ(a["metrics"], b["metrics"]);
  EXPECT_EQ(b["nodes"][3]["reused_from"], (folder_ / "a").string());
  EXPECT_EQ(file_text(folder_ / "a/nodes/evaluate/metrics.json"),
            file_text(folder_ / "b/nodes/evaluate/metrics.json"));

  // The record is self-contained.
  fs::remove_all(folder_ / "a");
  EXPECT_THAT(verb("resume b").err, HasSubstr("there is nothing to resume"));
  const Ended predicted = verb("predict b " + first_image().string());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
  const Ended evaluated = verb("evaluate b run.dir=c");
  EXPECT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_EQ(summary("c")["metrics"]["evaluate"], b["metrics"]["evaluate"]);
  EXPECT_THAT(evaluated.err, Not(HasSubstr("reused")));
}

TEST_F(Reuse, ResultsAreNotReusedByDefault) {
  ASSERT_EQ(run("a").exit, 0);
  EXPECT_THAT(run("b").err, Not(HasSubstr("reused")));
  EXPECT_THAT(run("c", "--reuse --no-reuse").err, HasSubstr("excludes"));
}

TEST_F(Reuse, ChangedFieldIsReportedAndCausesRecomputation) {
  ASSERT_EQ(run("a").exit, 0);
  const Ended larger = run("b", "--reuse data.image_size=36");
  EXPECT_EQ(larger.exit, 0) << larger.err;
  EXPECT_THAT(larger.err,
              HasSubstr("train: computed again: data.image_size was 24 and is now 36\n"));
  const fs::path image = first_image();
  const auto time = fs::last_write_time(image);
  fs::last_write_time(image, time + std::chrono::seconds(1));
  EXPECT_THAT(run("touched", "--reuse").err, HasSubstr("train: reused from a\n"));
  std::fstream bytes(image, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(-12, std::ios::end);
  bytes.put('\x55');
  bytes.close();
  fs::last_write_time(image, time);
  const Ended changed = run("c", "--reuse");
  EXPECT_THAT(changed.err, HasSubstr("train: computed again: the files of 'data' have changed\n"));
  EXPECT_THAT(run("d", "--reuse data.loader.workers=2").err, HasSubstr("train: reused from c\n"));
}

TEST_F(Reuse, TrainingIsReusedForAnotherEvaluation) {
  ASSERT_EQ(run("a").exit, 0);
  const Ended other = run("b", "--reuse evaluate.batch_size=3");
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("train: reused from a\n"));
  EXPECT_THAT(other.err,
              HasSubstr("evaluate: computed again: evaluate.batch_size was 64 and is now 3\n"));
  EXPECT_EQ(metrics("a")["train"], metrics("b")["train"]);
  EXPECT_EQ(verb("predict b " + first_image().string()).exit, 0);
}

TEST_F(Reuse, DamagedWeightsAreNotReused) {
  ASSERT_EQ(run("a").exit, 0);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "a/nodes/train")) {
    if (entry.path().filename() != "model.safetensors") continue;
    const auto time = fs::last_write_time(entry.path());
    std::fstream bytes(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp(-3, std::ios::end);
    bytes.put('\x55');
    bytes.close();
    fs::last_write_time(entry.path(), time);  // so that only the digest differs
  }
  const Ended other = run("b", "--reuse evaluate.batch_size=3");
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("train: computed again: "));
  EXPECT_THAT(other.err, Not(HasSubstr("reused from")));
  EXPECT_EQ(metrics("a")["train"], metrics("b")["train"]);
}

TEST_F(Reuse, ConcurrentRunsDoNotDisturbEachOther) {
  Ended one, two;
  std::thread first([&] { one = run("a", "--reuse"); }), second([&] { two = run("b", "--reuse"); });
  first.join();
  second.join();
  EXPECT_EQ(one.exit, 0) << one.err;
  EXPECT_EQ(two.exit, 0) << two.err;
  EXPECT_EQ(metrics("a"), metrics("b"));
  EXPECT_THAT(run("c", "--reuse").err, HasSubstr("train: reused from "));
}

}  // namespace
