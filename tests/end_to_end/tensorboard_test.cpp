// End-to-end tests of TensorBoard event files. tensorboard_reader_test.py reads such files with
// TensorBoard itself.

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/event_file_reader.h"
#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::SizeIs;

class TensorBoard : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 2 --per-class 10 --size 24 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    ASSERT_EQ(train("plain", "", "").exit, 0);
    const Ended counted = train("counted");
    ASSERT_EQ(counted.exit, 0) << counted.err;
    folder_.keep();
  }
  /// Trains for four steps and saves after each.
  Ended train(const std::string& name, const std::string& variables = "",
              const std::string& more = "run.tensorboard=true train.log_gradients_every=1") const {
    return run_shell(
        variables + " " + RETORT_BINARY_DIR +
            "/bin/retort run classify data.root=photos data.image_size=24 model.patch_size=8 "
            "epochs=2 batch_size=8 train.checkpoint.every.steps=1 train.log_every=1 threads=1 "
            "'+vars.api_key=hunter2' run.dir=" +
            name + ' ' + more,
        folder_.path());
  }
  /// The histograms of a run, without times.
  std::vector<json> histograms(const std::string& run) const {
    std::vector<json> all;
    std::istringstream lines(file_text(folder_ / (run + "/histograms.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      all.push_back(json::parse(line));
      all.back().erase("time");
    }
    return all;
  }
  /// All summaries below a folder, by "subfolder/tag".
  std::map<std::string, runner::ProtobufFields> summaries(const std::string& below) const {
    std::map<std::string, runner::ProtobufFields> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / below)) {
      if (!entry.is_regular_file()) continue;
      const std::string node =
          entry.path().parent_path().lexically_relative(folder_ / below).string();
      for (const auto& [tag, value] : runner::summaries_in(entry.path()))
        all.insert_or_assign(node + "/" + tag, value);
    }
    return all;
  }

  SharedFolder folder_;
};

TEST_F(TensorBoard, LoggingGradientsDoesNotChangeWeights) {
  EXPECT_EQ(latest_weights(folder_ / "counted"), latest_weights(folder_ / "plain"));
  EXPECT_FALSE(fs::exists(folder_ / "plain/histograms.jsonl"));
  const auto all = histograms("counted");
  ASSERT_FALSE(all.empty());
  std::map<std::string, std::vector<int>> steps;
  for (const json& one : all) steps[one.at("name")].push_back(one.at("step"));
  for (const auto& [name, found] : steps)
    EXPECT_THAT(found, testing::ElementsAre(1, 2, 3, 4)) << name;
  EXPECT_THAT(steps, Contains(Key("gradients/head.weight")));
}

TEST_F(TensorBoard, RunHasTextImagesHistogramsAndOptions) {
  const auto live = summaries("counted/tensorboard");
  for (const char* tag :
       {"./recipe", "./summary", "./_hparams_/session_start_info", "./_hparams_/session_end_info",
        "train/train/loss", "train/gradients/head.weight", "evaluate/evaluate/top1"})
    EXPECT_THAT(live, Contains(Key(tag)));
  EXPECT_TRUE(std::ranges::any_of(
      live, [](const auto& one) { return one.first.ends_with(" predictions/1"); }));
  const Ended ended = retort("export counted --tensorboard --out exported", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const auto exported = summaries("exported");
  for (const auto& [tag, value] : live) EXPECT_THAT(exported, Contains(Key(tag)));
  for (const char* place : {"counted", "exported"})
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / place))
      if (entry.is_regular_file())
        EXPECT_THAT(file_text(entry.path()), Not(HasSubstr("hunter2"))) << entry.path();
}

TEST_F(TensorBoard, ResumedRunHasNoDuplicateHistograms) {
  ASSERT_NE(train("killed", "RETORT_FAULT=retort-worker/step:3:kill",
                  "run.tensorboard=true "
                  "train.log_gradients_every=1 memory.max_retries=0")
                .exit,
            0);
  const Ended resumed = retort("resume killed", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(latest_weights(folder_ / "killed"), latest_weights(folder_ / "plain"));
  EXPECT_EQ(histograms("killed"), histograms("counted"));
}

TEST_F(TensorBoard, RanksLogTheSumOfTheirGradients) {
  const Ended ended = train("ranks", "",
                            "run.tensorboard=true train.log_gradients_every=1 device=cpu "
                            "device.count=2");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const auto total = [](const json& histogram) {
    std::int64_t values = 0;
    for (const json& bucket : histogram.at("buckets")) values += bucket.at(2).get<std::int64_t>();
    return values;
  };
  const auto alone = histograms("counted"), together = histograms("ranks");
  ASSERT_EQ(together.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(together[i].at("name"), alone[i].at("name"));
    EXPECT_EQ(total(together[i]), total(alone[i]));
  }
}

TEST_F(TensorBoard, SweepHasAnExperimentAndASessionPerTrial) {
  const std::string command = std::string(RETORT_BINARY_DIR) +
                              "/bin/retort sweep classify data.root=photos data.image_size=24 "
                              "model.patch_size=8 epochs=1 batch_size=8 threads=1 seed=1,2 "
                              "run.tensorboard=true sweep.dir=sweep";
  const Ended ended = run_shell(command, folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(summaries("sweep/tensorboard"), Contains(Key("./_hparams_/experiment")));
  const Ended exported = retort("export sweep --tensorboard --out all --json", folder_.path());
  ASSERT_EQ(exported.exit, 0) << exported.err;
  {
    const auto all = summaries("all");
    EXPECT_THAT(all, Contains(Key("./_hparams_/experiment")));
    for (const char* trial : {"0", "1"}) {
      const auto start = all.find(std::string(trial) + "/_hparams_/session_start_info");
      ASSERT_NE(start, all.end());
      EXPECT_THAT(start->second.at(9), HasSubstr("seed"));
      EXPECT_THAT(all, Contains(Key(std::string(trial) + "/evaluate/evaluate/top1")));
    }
  }
  const auto live = summaries("sweep/1/tensorboard");
  EXPECT_THAT(live.at("./_hparams_/session_start_info").at(9), HasSubstr("seed"));
}

}  // namespace
