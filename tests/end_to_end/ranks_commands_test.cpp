// End-to-end tests of commands with several ranks, and of device.count: auto.

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/ranks_fixture.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// Commands other than `run`, with several ranks.
class MultiRankCommands : public Ranks {
 protected:
  /// The recipe for a small training run; the number of ranks is appended to it.
  static inline const std::string kSmall =
      " quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
      "model.num_hidden_layers=1 train.batch_size=9 device=cpu device.count=";

  /// The command for a small linear probe.
  static inline const std::string kProbe =
      " " RETORT_BINARY_DIR
      "/bin/retort run finetune data=image_folder model=linear_probe model/backbone=tiny "
      "model.backbone.num_hidden_layers=1 data.root=photos data.image_size=28 "
      "data.augment.random_resized_crop=null data.augment.horizontal_flip=0 data.loader.workers=0 "
      "features.batch_size=4 threads=1 device=cpu";

  void expect_error_of_rank_1(const std::string& command) {
    const Ended failed = with_fault("retort-worker-1/step:2:fail", command + kSmall + "2");
    EXPECT_EQ(failed.exit, 1);
    EXPECT_THAT(failed.err, HasSubstr("rank 1: a test requested that this step fail"));
  }
};

TEST_F(MultiRankCommands, RanksFindTheLearningRateTogether) {
  const auto losses = [&](const std::string& ranks) {
    const Ended ended = retort("lr-find --steps 20 --json" + kSmall + ranks, folder_.path());
    std::vector<double> found;
    const json answer = json::parse(ended.out);
    for (const json& point : answer.at("result").at("points")) found.push_back(point.at("loss"));
    return found;
  };
  const auto one = losses("1"), all = losses("3");
  ASSERT_FALSE(one.empty());
  EXPECT_NEAR(all.at(0), one.at(0), kReordered * std::abs(one[0]));
  expect_error_of_rank_1("lr-find --steps 20");
}

TEST_F(MultiRankCommands, FeaturesAreComputedOnceForAllRanks) {
  const auto probe = [&](const std::string& name, int ranks, const std::string& more = "",
                         const std::string& fault = "") {
    return run_shell("RETORT_CACHE=$PWD/cache " + fault + kProbe +
                         " epochs=2 train.batch_size=8 device.count=" + std::to_string(ranks) +
                         " run.dir=" + name + ' ' + more,
                     folder_.path());
  };
  const auto features = [&](const std::string& run, const std::string& part) {
    return file_text(folder_ / (run + "/nodes/features/" + part + ".safetensors"));
  };
  for (const int ranks : {1, 3}) {
    const Ended ended = probe("probe-" + std::to_string(ranks), ranks, "--no-reuse");
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  for (const char* const part : {"train", "validation", "test"}) {
    EXPECT_NE(features("probe-3", part), "");
    EXPECT_TRUE(features("probe-3", part) == features("probe-1", part)) << part;
    EXPECT_EQ(features("probe-3/ranks/1", part), "") << "only rank 0 writes them";
  }
  EXPECT_THAT(file_text(folder_ / "probe-3/log.txt"), HasSubstr("rank 1: train: "));

  const Ended again = probe("probe-again", 3, "lr=0.02");
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("features: reused from"));
  EXPECT_THAT(file_text(folder_ / "probe-again/log.txt"), Not(HasSubstr("rank 1: train: ")))
      << "the other ranks read them";

  for (const std::string event : {"3", "5", "7"}) {
    const Ended killed = probe("probe-killed-" + event, 3, "--no-reuse memory.max_retries=0",
                               "RETORT_FAULT=retort-worker-1/event:" + event + ":kill");
    EXPECT_EQ(killed.exit, 1);
    EXPECT_THAT(killed.err, HasSubstr("SIGKILL"));
  }
}

TEST_F(MultiRankCommands, TrainingWithoutStepsGivesTheSameBits) {
  const auto probe = [&](const std::string& kind, int ranks, const std::string& name,
                         const std::string& fault = "") {
    return run_shell(fault + kProbe + " --no-reuse train=" + kind +
                         " device.count=" + std::to_string(ranks) + " run.dir=" + name,
                     folder_.path());
  };
  for (const std::string kind : {"logistic_regression", "none"}) {
    const std::string without_validation = kind == "none" ? " '~train.inputs.validation'" : "";
    for (const int ranks : {1, 2}) {
      const Ended ended = probe(kind + without_validation, ranks, kind + std::to_string(ranks));
      ASSERT_EQ(ended.exit, 0) << ended.err;
    }
    EXPECT_TRUE(weights(kind + "2") == weights(kind + "1")) << kind;
    EXPECT_EQ(values(kind + "2", "search/accuracy"), values(kind + "1", "search/accuracy"));
    EXPECT_FALSE(fs::exists(folder_ / (kind + "2/ranks/1/nodes/train/checkpoints")))
        << "only rank 0 saves";
  }
  const Ended killed =
      probe("logistic_regression", 2, "probe-lost", "RETORT_FAULT=retort-worker-1/event:5:kill");
  EXPECT_EQ(killed.exit, 1);
  EXPECT_THAT(killed.err, HasSubstr("SIGKILL"));
}

TEST_F(MultiRankCommands, AllRanksAreCheckedForDeterminism) {
  const Ended ended = retort("doctor determinism --steps 2" + kSmall + "2", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::StartsWith("deterministic: 2 steps"));
  expect_error_of_rank_1("doctor determinism");
}

TEST_F(MultiRankCommands, RanksAreRejectedByVerbsThatDoNotTrain) {
  ASSERT_EQ(train("trained", 2).exit, 0);
  for (const std::string count : {"3", "auto"}) {
    for (const std::string verb :
         {"predict trained photos", "embed trained photos --out e", "evaluate trained run.dir=e"}) {
      const Ended ended = retort(verb + " device.count=" + count, folder_.path());
      EXPECT_EQ(ended.exit, 78) << verb << ended.err;
      EXPECT_THAT(ended.err, HasSubstr("device.count"));
      EXPECT_FALSE(fs::exists(folder_ / "e"));
    }
  }
  for (const std::string count : {"1", "2"})
    EXPECT_EQ(
        retort("evaluate trained device.count=" + count + " run.dir=of-" + count, folder_.path())
            .exit,
        0);
}

TEST_F(MultiRankCommands, WaitingForAGpuIsRejected) {
  const Ended ended = train("waits", 2, "device.select=auto device.wait_for_gpu=true");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("device.wait_for_gpu waits for a single GPU, but device.count "
                                   "is 2"));
  EXPECT_THAT(ended.err, HasSubstr("set device.wait_for_gpu: false, or device.count: 1"));
  EXPECT_FALSE(fs::exists(folder_ / "waits"));
}

TEST_F(MultiRankCommands, AutoChoosesTheFewestRanksThatFit) {
  const std::string recipe =
      " quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
      "model.num_hidden_layers=1 train.epochs=1 device=cpu memory.shard=gradients ";
  const auto needed = [&](int ranks) -> std::int64_t {
    const Ended planned =
        retort("plan" + recipe + "--json device.count=" + std::to_string(ranks), folder_.path());
    EXPECT_EQ(planned.exit, 0) << planned.err;
    return json::parse(planned.out).at("result").at("plans").at(0).at("needed");
  };
  const std::int64_t two = needed(2), three = needed(3);
  const std::int64_t thousandths = three * 1000 / (1 << 20) + 1;  // of a MiB
  ASSERT_GT(two, thousandths * (1 << 20) / 1000);
  const std::string digits = std::to_string(1000 + thousandths % 1000).substr(1);
  const std::string enough_for_three = std::to_string(thousandths / 1000) + '.' + digits + "MiB";
  const Ended planned =
      retort("plan" + recipe + "device.count=auto --budget " + enough_for_three, folder_.path());
  EXPECT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("device.count: auto is 3: with 2, train needs "));

  const std::string budget = "memory.budget=" + enough_for_three + ' ';
  const Ended ran =
      retort("run" + recipe + "device.count=auto run.dir=fewest " + budget, folder_.path());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("device.count: auto is 3"));
  const Ended again =
      retort("run" + recipe + "device.count=3 run.dir=three " + budget, folder_.path());
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_TRUE(weights("fewest") == weights("three"));

  const Ended alone = retort("plan" + recipe + "device.count=auto device=auto", folder_.path());
  EXPECT_EQ(alone.exit, 0) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("device.count: auto is "));

  const Ended fits = retort("plan" + recipe + "device.count=auto", folder_.path());
  EXPECT_THAT(fits.err, HasSubstr("device.count: auto is 1: train needs "));
}

TEST_F(MultiRankCommands, AutoIsRejectedIfItCannotChoose) {
  const std::string recipe =
      " quickstart data.root=photos data.make=null device=cpu device.count=auto ";
  const Ended nothing = retort("plan" + recipe + "--budget 1MiB", folder_.path());
  EXPECT_EQ(nothing.exit, 1) << nothing.err;
  EXPECT_THAT(nothing.err, HasSubstr("[/device/count]"));
  EXPECT_THAT(nothing.err, HasSubstr("does not fit with any number of ranks up to 8: with 8, "));
  const Ended sweep = retort("sweep" + recipe + "seed=1,2", folder_.path());
  EXPECT_EQ(sweep.exit, 78) << sweep.err;
  EXPECT_THAT(sweep.err, HasSubstr("device.count: auto cannot be used in a sweep"));
  ASSERT_EQ(train("to-resume", 1).exit, 0);
  const Ended resumed = retort("resume to-resume device.count=auto", folder_.path());
  EXPECT_EQ(resumed.exit, 78) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("this run already has a record"));
}

TEST_F(MultiRankCommands, RankCountMustBeAtLeastOne) { EXPECT_EQ(train("none", 0).exit, 78); }

TEST_F(MultiRankCommands, CertifyComparesRanksWithASingleRank) {
  const Ended ended = retort(
      "certify quickstart data.root=photos data.make=null data.image_size=16 "
      "model.patch_size=8 device.count=3",
      folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("3 ranks"));
}

TEST_F(MultiRankCommands, DoctorMeasuresRanks) {
  const Ended ended = retort("doctor ranks --devices 3", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::StartsWith("3 ranks on this machine\n"));
  EXPECT_THAT(ended.out, testing::ContainsRegex("8 B +[0-9.]+ ms +[0-9].*/s\n"));
  EXPECT_THAT(ended.out, testing::ContainsRegex("25.* MiB +[0-9.]+ ms +[0-9].*/s\n"));
  const json answer = json::parse(retort("doctor ranks --json", folder_.path()).out).at("result");
  EXPECT_EQ(answer.at("ranks"), 2);
  EXPECT_EQ(answer.at("sums").size(), 3);
}

}  // namespace
