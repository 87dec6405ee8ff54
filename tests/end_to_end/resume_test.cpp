// End-to-end tests of runs that are stopped, killed or run out of disk space, and then resumed.

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// The part of a run's result that must be reproducible.
struct Result {
  std::string weights, predictions;
  json metrics;  // metrics.jsonl in order, without times and memory
  json history;  // training_metrics.json without times
};

class Resume : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 2 --per-class 10 --size 24 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  /// Trains for two epochs of two steps each and saves after each step, with `fault`.
  Ended train(const std::string& name, const std::string& fault = "",
              const std::string& more = "") {
    return run_shell(
        (fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
            "/bin/retort run quickstart data.root=photos data.make=null data.image_size=16 "
            "model.patch_size=8 model.num_hidden_layers=1 train.epochs=2 train.batch_size=8 "
            "train.checkpoint.every.steps=1 train.log_every=1 memory.max_retries=0 run.dir=" +
            name + ' ' + more,
        folder_.path());
  }
  Ended resume(const std::string& name, const std::string& more = "") {
    return retort("resume " + name + ' ' + more, folder_.path());
  }
  Result result(const std::string& name) const {
    const fs::path nodes = folder_ / (name + "/nodes"), checkpoints = nodes / "train/checkpoints";
    std::string best = file_text(checkpoints / "best");
    if (best.empty()) return {};
    best.pop_back();
    Result result{file_text(checkpoints / best / "model.safetensors"),
                  file_text(nodes / "evaluate/predictions.csv"),
                  json::array(),
                  {}};
    std::istringstream lines(file_text(folder_ / (name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      json metric = json::parse(line);
      metric.erase("time");
      if (metric.at("name").get_ref<const std::string&>().starts_with("memory/"))
        continue;  // of the process, not the run
      result.metrics.push_back(std::move(metric));
    }
    result.history = json::parse(file_text(nodes / "train/training_metrics.json"));
    EXPECT_EQ(result.history.at("epoch_times").size(), result.history.at("train_losses").size());
    for (const json& seconds : result.history.at("epoch_times")) EXPECT_GT(seconds, 0);
    result.history.erase("epoch_times");
    return result;
  }
  void expect_whole(const std::string& name, const Result& whole) const {
    const Result mine = result(name);
    EXPECT_TRUE(mine.weights == whole.weights);
    EXPECT_EQ(mine.predictions, whole.predictions);
    EXPECT_EQ(mine.metrics, whole.metrics);
    EXPECT_EQ(mine.history, whole.history);
    EXPECT_EQ(json::parse(file_text(folder_ / (name + "/summary.json")))["status"], "finished");
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / name)) {
      const std::string file = entry.path().filename();
      EXPECT_FALSE(file.ends_with(".part") || file.starts_with(".step-")) << entry.path();
    }
  }
  /// True while any process of a run in this folder is alive.
  bool is_being_run() const {
    return run_shell(
               "pgrep -f '[r]etort-worker' | xargs -r -I{} readlink /proc/{}/cwd | grep -qxF "
               "\"$PWD\"",
               folder_.path())
               .exit == 0;
  }
  /// True if a training run reaches that many points.
  bool has_point(const std::string& program, int point) {
    const bool is_there =
        train("probe", program + "/any:" + std::to_string(point) + ":kill").exit != 0;
    fs::remove_all(folder_ / "probe");
    return is_there;
  }
  /// Returns the result of an uninterrupted run with these options; each process runs it only once.
  const Result& whole(const std::string& more = "") {
    static std::map<std::string, Result> results;
    const auto [found, is_new] = results.try_emplace(more);
    if (is_new) {
      EXPECT_EQ(train("whole", "", more).exit, 0);
      found->second = result("whole");
      EXPECT_FALSE(found->second.metrics.empty());
      fs::remove_all(folder_ / "whole");
    }
    return found->second;
  }
  /// Applies `action` to `program` at its points first, first + stride, …, and resumes each run to
  /// its end.
  void strike_every(const std::string& program, const std::string& action, int first, int stride) {
    ASSERT_FALSE(whole().metrics.empty());
    int struck = 0;
    for (int point = first;; point += stride) {
      const std::string fault = program + "/any:" + std::to_string(point) + ":" + action;
      SCOPED_TRACE(fault);
      const std::string name = "run" + std::to_string(point);
      const Ended ended = train(name, fault);
      if (ended.exit == 0) {
        if (!has_point(program, point)) break;
        // The failed call was optional, for files that only later runs use.
        expect_whole(name, whole());
        fs::remove_all(folder_ / name);
        if (HasFailure()) return;
        continue;
      }
      ++struck;
      for (int wait = 0; is_being_run() && wait < 50; ++wait) usleep(20'000);
      EXPECT_FALSE(is_being_run());
      Ended gone_on = resume(name);
      if (gone_on.exit == 66) {  // the record was incomplete, so there is nothing to lose
        EXPECT_FALSE(fs::exists(folder_ / (name + "/nodes")));
        fs::remove_all(folder_ / name);
        gone_on = train(name);
      }
      EXPECT_EQ(gone_on.exit, 0) << gone_on.err;
      expect_whole(name, whole());
      fs::remove_all(folder_ / name);
      if (HasFailure()) return;
    }
    EXPECT_GE(struck, 3);
  }
  SharedFolder folder_;
};

TEST_F(Resume, SurvivesKillingTheWorkerAtSampledPoints) {
  strike_every("retort-worker", "kill", 11, 167);
}
TEST_F(Resume, SurvivesKillingRetortAtSampledPoints) { strike_every("retort", "kill", 14, 47); }
TEST_F(Resume, SurvivesKillingBothAtSampledPoints) {
  strike_every("retort-worker", "kill_both", 31, 193);
}
TEST_F(Resume, SurvivesAFullDiskAtSampledPoints) { strike_every("retort-worker", "full", 23, 199); }

/// The number of the allocation that fails in a run; the long tests try several.
std::vector<int> failing_blocks() {
  return std::getenv("RETORT_DEEP") ? std::vector{400, 450, 600} : std::vector{450};
}

TEST_F(Resume, OutOfMemoryCostsAtMostOneStep) {
  for (const int block : failing_blocks()) {
    SCOPED_TRACE(block);
    const Ended ended =
        train("run", "retort-worker/alloc:" + std::to_string(block) + ":fail",
              "train.checkpoint.every.steps=null");  // the run saves only when a step fails
    EXPECT_EQ(ended.exit, 1);
    EXPECT_THAT(ended.err, HasSubstr("error[E0706]: out of memory"));
    EXPECT_THAT(ended.err, HasSubstr("the last step before memory ran out"));
    EXPECT_EQ(resume("run").exit, 0);
    expect_whole("run", whole());
    fs::remove_all(folder_ / "run");
  }
}

const std::string kRetries = "memory=as_written memory.max_retries=auto ";

TEST_F(Resume, OutOfMemoryCostsNothingWithRetries) {
  for (const int block : failing_blocks()) {
    SCOPED_TRACE(block);
    const Ended ended =
        train("run", "retort-worker/alloc:" + std::to_string(block) + ":fail", kRetries);
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("out of memory"));
    EXPECT_THAT(ended.err,
                HasSubstr("recovered once: 1 x out of memory (recoveries in summary.json)"));
    expect_whole("run", whole(kRetries));
    const json summary = json::parse(file_text(folder_ / "run/summary.json"));
    ASSERT_EQ(summary.at("recoveries").size(), 1);
    EXPECT_EQ(summary.at("recoveries")[0].at("from"), summary.at("recoveries")[0].at("to"));
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(Resume, RestartedWorkerGivesTheSameBits) {
  for (const auto& [action, line] :
       {std::pair("kill",
                  "train: the worker was killed: continuing from the last checkpoint, restart 1\n"),
        std::pair(
            "lose",
            "train: the device 'cpu' failed: continuing from the last checkpoint, restart 1\n")}) {
    SCOPED_TRACE(action);
    const Ended ended = train("run", std::string("retort-worker/step:3:") + action, kRetries);
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(line));
    EXPECT_THAT(ended.err, HasSubstr("train: resuming after step 2 of 4"));
    expect_whole("run", whole(kRetries));
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(Resume, RobustPolicyRecoversFromAFailedAllocation) {
  // The planner chose this option's value on its own, so it may change it.
  const std::string robust =
      "memory=robust memory.activation_checkpointing=none memory.max_retries=3 ";
  const Ended ended = train("run", "retort-worker/alloc:450:fail", robust);
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("recovered once: 1 x out of memory"));
  expect_whole("run", whole(robust));
}

TEST_F(Resume, RepeatedDeviceFailureStopsTheRun) {
  const Ended ended = train("run", "retort-worker/step:1:lose", kRetries);
  EXPECT_EQ(ended.exit, 69);
  EXPECT_THAT(ended.err,
              HasSubstr("train: the device failed: a test requested that this step lose its GPU"));
  EXPECT_THAT(ended.err, HasSubstr("restart 1\n"));
  EXPECT_THAT(ended.err, testing::Not(HasSubstr("restart 2")));
  EXPECT_THAT(ended.err, HasSubstr("error[E0712]: the device 'cpu' failed"));
}

TEST_F(Resume, RepeatedlyKilledWorkerTriesPlansThatNeedLess) {
  const Ended ended =
      train("run", "retort-worker/step:1:kill", kRetries + "memory.min_micro_batch=4");
  EXPECT_EQ(ended.exit, 1);
  EXPECT_THAT(
      ended.err,
      HasSubstr("train: the worker was killed: continuing from the last checkpoint, restart 1\n"));
  EXPECT_THAT(ended.err, HasSubstr("restart 2\n"));
  EXPECT_THAT(ended.err,
              HasSubstr("train: continues with micro_batch 4 instead of the whole batch of 8: "
                        "workers that used the whole batch of 8 were killed"));
  EXPECT_THAT(ended.err, HasSubstr("error[E0706]: the worker was killed repeatedly, and no plan "
                                   "needs less memory than micro_batch 4"));
}

TEST_F(Resume, LostGpuWithoutRetriesStopsTheRunWhichCanBeResumed) {
  const Ended ended = train("run", "retort-worker/step:3:lose", "memory=as_written");
  EXPECT_EQ(ended.exit, 69);
  EXPECT_THAT(ended.err,
              HasSubstr("help: set memory.max_retries to restart the run automatically"));
  EXPECT_THAT(ended.err, HasSubstr("finished work is saved: continue with `retort resume run`"));
  EXPECT_EQ(resume("run").exit, 0);
  expect_whole("run", whole("memory=as_written"));
}

/// Every point, in shares that can run in parallel.
class DeepResume : public Resume, public testing::WithParamInterface<int> {
 public:
  static constexpr int kShares = 8;

 protected:
  void strike_all(const std::string& program, const std::string& action) {
    strike_every(program, action, 1 + GetParam(), kShares);
  }
};
INSTANTIATE_TEST_SUITE_P(Deep, DeepResume, testing::Range(0, DeepResume::kShares));
TEST_P(DeepResume, SurvivesKillingTheWorkerAtEveryPoint) { strike_all("retort-worker", "kill"); }
TEST_P(DeepResume, SurvivesKillingRetortAtEveryPoint) { strike_all("retort", "kill"); }
TEST_P(DeepResume, SurvivesKillingBothAtEveryPoint) { strike_all("retort-worker", "kill_both"); }
TEST_P(DeepResume, SurvivesAFullDiskInTheWorkerAtEveryPoint) {
  strike_all("retort-worker", "full");
}
TEST_P(DeepResume, SurvivesAFullDiskInRetortAtEveryPoint) { strike_all("retort", "full"); }
TEST_P(DeepResume, SurvivesFailureOfAnySystemCallInTheWorker) {
  strike_all("retort-worker", "fail");
}

TEST_F(Resume, SignalSavesAndReportsHowToContinue) {
  const Ended stopped = run_shell(
      std::string(RETORT_BINARY_DIR) +
          "/bin/retort run quickstart data.root=photos data.make=null data.image_size=16 "
          "model.patch_size=8 model.num_hidden_layers=1 train.epochs=40 train.batch_size=8 "
          "train.checkpoint.every.steps=1 train.log_every=1 run.dir=run & run=$!; "
          "while [ ! -e run/nodes/train/checkpoints/latest ]; do sleep 0.02; done; "
          "kill -USR2 $run; sleep 0.1; kill -TERM $run; wait $run",
      folder_.path());
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("interrupted: continue with `retort resume run`"));
  const json summary = json::parse(file_text(folder_ / "run/summary.json"));
  EXPECT_EQ(summary["status"], "interrupted");
  EXPECT_EQ(summary["exit"], 75);
  const Ended gone_on = resume("run");
  EXPECT_EQ(gone_on.exit, 0) << gone_on.err;
  EXPECT_THAT(gone_on.err, HasSubstr("train: resuming after step "));
  expect_whole("run", whole("train.epochs=40"));
  EXPECT_THAT(resume("run").err, HasSubstr("the run has finished: there is nothing to resume"));
}

TEST_F(Resume, DamagedCheckpointIsSkipped) {
  ASSERT_NE(train("run", "retort-worker/step:4:kill").exit, 0);
  fs::rename(folder_ / "run", folder_ / "killed");
  for (const char* damage : {"truncate -s -1 \"$f\"",
                             "printf x | dd of=\"$f\" bs=1 seek=900 conv=notrunc", "rm \"$f\""}) {
    const Ended damaged =
        run_shell(std::string("cp -a killed run; f=run/nodes/train/checkpoints/$(cat "
                              "run/nodes/train/checkpoints/latest)/model.safetensors; ") +
                      damage,
                  folder_.path());
    ASSERT_EQ(damaged.exit, 0) << damaged.err;
    const Ended gone_on = resume("run");
    EXPECT_EQ(gone_on.exit, 0) << gone_on.err;
    EXPECT_THAT(gone_on.err, HasSubstr("is damaged: "));
    EXPECT_THAT(gone_on.err, HasSubstr("; an earlier checkpoint is used"));
    expect_whole("run", whole());
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(Resume, RecipeChangesAreJudgedFieldByField) {
  ASSERT_NE(train("run", "retort-worker/step:3:kill").exit, 0);
  const Ended refused = resume("run", "train.epochs=3 model.hidden_size=32 data.loader.workers=0");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err,
              HasSubstr("error[E0807]: 'train.epochs' was 2 and is now 3: the schedule 'one_cycle' "
                        "spans all epochs, so the epochs completed so far would have had different "
                        "learning rates [/train/epochs]"));
  EXPECT_THAT(refused.err,
              HasSubstr("and is now 32: the saved state is incompatible with this change "
                        "[/model/hidden_size]"));
  EXPECT_THAT(refused.err, testing::Not(HasSubstr("workers")));
  const Ended forced = resume("run", "train.epochs=3 --force");
  EXPECT_EQ(forced.exit, 0) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("epoch 3/3"));
}

TEST_F(Resume, FinishedRunContinuesForMoreEpochs) {
  const std::string schedule = "'train.schedule=replace({kind: exponential, gamma: 0.9})' ";
  ASSERT_EQ(train("run", "", schedule).exit, 0);
  const Ended gone_on = resume("run", "train.epochs=4");
  EXPECT_EQ(gone_on.exit, 0) << gone_on.err;
  EXPECT_THAT(gone_on.err, HasSubstr("epoch 4/4"));
  expect_whole("run", whole(schedule + "train.epochs=4"));
  const Ended back = resume("run", "train.epochs=3");
  EXPECT_EQ(back.exit, 78);
  EXPECT_THAT(back.err, HasSubstr("4 epochs are done, but 'epochs' is 3: finished epochs cannot be "
                                  "undone [/train/epochs]"));
}

TEST_F(Resume, ActiveRunIsNotResumed) {
  const Ended ended =
      run_shell(std::string(RETORT_BINARY_DIR) +
                    "/bin/retort run quickstart data.root=photos data.make=null data.image_size=16 "
                    "model.patch_size=8 train.epochs=5000 run.dir=run -q & run=$!; while [ ! -e "
                    "run/nodes/train/checkpoints/latest ]; do sleep 0.02; done; " RETORT_BINARY_DIR
                    "/bin/retort resume run; echo $? >busy; kill -TERM $run; wait $run",
                folder_.path());
  EXPECT_EQ(ended.exit, 75);
  EXPECT_EQ(file_text(folder_ / "busy"), "69\n");
  EXPECT_THAT(ended.err, HasSubstr("error[E0805]: the run '"));
}

}  // namespace
