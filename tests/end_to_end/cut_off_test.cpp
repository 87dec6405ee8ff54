// End-to-end tests of runs that end between any two system calls that write, and are then resumed.

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A system call, parsed from a line that writing_calls.cpp wrote.
struct Call {
  long number = 0;
  std::string program;
  long own = 0;  ///< its number within the program
  std::string name, path;
  std::size_t place = 0;  ///< its index among the calls that are tested

  bool is_like(const Call& other) const {
    return program == other.program && name == other.name && path == other.path;
  }
};

/// Removes what differs between two runs of one recipe: times, memory, and the state of the
/// process's random number generator, which is not used.
json steady(json document) {
  if (document.is_object()) {
    for (const char* name : {"time", "seconds", "epoch_times", "peak_memory_bytes", "random"})
      document.erase(name);
    std::erase_if(document.get_ref<json::object_t&>(), [](const auto& one) {
      return one.first.find("memory") != std::string::npos ||
             one.first.find("per_second") != std::string::npos;
    });
  }
  if (document.is_structured())
    for (json& below : document) below = steady(std::move(below));
  return document;
}

class InterruptedWrites : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 6 --size 16 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    const std::string model =
        "model: {patch_size: 8, num_hidden_layers: 1, hidden_size: 16, intermediate_size: 32, "
        "num_attention_heads: 2}\n";
    const std::string data =
        "threads: 1\n"
        "data: {root: photos, image_size: 16, split: {train: 0.5, validation: 0.25, test: 0.25}, "
        "augment: {random_resized_crop: null, horizontal_flip: 0}, loader: {workers: 0}}\n";
    const std::string training =
        "batch_size: 16, log_every: 1, checkpoint: {every: {steps: 1}}, optimizer: {learning_rate: "
        "1.0e-3}";
    // The loss falls, so the last checkpoint is the best.
    folder_.write(
        "training.yaml",
        "schema: 1\ndefaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, {train: "
        "from_scratch}, _self_]\n" +
            data + model + "train: {epochs: 3, monitor: loss, " + training +
            "}\nevaluate: {kind: evaluate.classification}\n");
    folder_.write(
        "ensemble.yaml",
        "schema: 1\ndefaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, {train: "
        "one_vs_one}, {evaluate: pairwise_ensemble}, _self_]\n" +
            data + model +
            "train: {foreach: {pair: [[0, 1], [0, 2], [1, 2]]}, epochs: 2, patience: null, "
            "stop_at_accuracy: null, " +
            training + "}\nevaluate: {bootstrap: 20}\n");
    folder_.keep();
  }
  /// Runs work/run with the environment `variables`. The run may reuse what is in work/cache.
  Ended run(const std::string& recipe, const std::string& variables = "",
            const std::string& more = "") const {
    fs::remove_all(folder_ / "work");
    fs::create_directory(folder_ / "work");
    return run_shell("export RETORT_CACHE=$PWD/work/cache; " + variables + ' ' + RETORT_BINARY_DIR +
                         "/bin/retort run " + recipe +
                         " memory.max_retries=0 run.dir=work/run "
                         "'train.schedule=replace({kind: exponential, gamma: 0.9})' " +
                         more,
                     folder_.path());
  }
  Ended resume(const std::string& variables = "") const {
    return run_shell("export RETORT_CACHE=$PWD/work/cache; " + variables + ' ' + RETORT_BINARY_DIR +
                         "/bin/retort resume work/run",
                     folder_.path());
  }
  std::string watched(const std::string& action) const {
    fs::remove_all(folder_ / "seen");
    fs::create_directory(folder_ / "seen");
    return "WRITING_CALLS=below:" + (folder_ / "work").string() +
           ",in:" + (folder_ / "seen").string() + "," + action +
           " LD_PRELOAD=" RETORT_WRITING_CALLS;
  }
  /// Returns the calls, but only the first, middle and last of many consecutive writes to a file.
  std::vector<Call> calls() const {
    std::vector<Call> all, calls;
    std::istringstream lines(file_text(folder_ / "seen/calls"));
    for (Call call; lines >> call.number >> call.program >> call.own >> call.name &&
                    std::getline(lines, call.path);)
      all.push_back(call);
    for (auto first = all.begin(); first != all.end();) {
      const auto end = std::find_if_not(first, all.end(),
                                        [&](const Call& call) { return call.is_like(*first); });
      const auto middle = first + (end - first) / 2, last = end - 1;
      for (auto at = first; at != end; ++at) {
        if (at != first && at != middle && at != last) continue;
        at->place = calls.size();
        calls.push_back(*at);
      }
      first = end;
    }
    return calls;
  }
  /// Every result of the run, by file: the outputs of the nodes and the metrics.
  std::map<std::string, std::string> results() const {
    std::map<std::string, std::string> found;
    const fs::path run = folder_ / "work/run";
    for (const auto& entry : fs::recursive_directory_iterator(run)) {
      const std::string name = entry.path().lexically_relative(run);
      if (name.starts_with(".retort") || entry.is_directory() || name == "log.txt") continue;
      if (name.ends_with("/manifest.json") || name.ends_with("/plan.json"))
        continue;  // checksums, and how it was resumed
      found[name] = file_text(entry.path());
      if (name.ends_with(".json")) {
        json document = steady(json::parse(found[name], nullptr, false));
        if (name.ends_with("/state.json"))
          document.erase("metrics");  // their number, which includes memory metrics
        found[name] = document.dump();
      }
      if (name == "summary.json") found[name] = json::parse(file_text(entry.path())).at("status");
      if (name.ends_with("finished.json")) found[name] = "is there";
    }
    // Groups metrics by node, since the order of those from different nodes depends on timing.
    std::map<std::string, std::string> measured;
    std::istringstream lines(found["metrics.jsonl"]);
    for (std::string line; std::getline(lines, line);) {
      const json metric = json::parse(line);
      const std::string name = metric.at("name");
      if (name.find("memory") == name.npos && name.find("second") == name.npos)
        measured[metric.at("node")] += steady(metric).dump() + "\n";
    }
    found.erase("metrics.jsonl");
    for (const auto& [node, text] : measured) found["metrics of " + node] = text;
    return found;
  }
  void expect_whole(const std::map<std::string, std::string>& whole) const {
    const auto mine = results();
    for (const auto& [name, text] : whole) {
      const auto found = mine.find(name);
      if (found == mine.end()) ADD_FAILURE() << name << " is missing";
      else
        EXPECT_TRUE(found->second == text)
            << name << (text.size() > 4000 ? "" : ": " + found->second + " for " + text);
    }
    for (const auto& [name, text] : mine)
      EXPECT_TRUE(whole.contains(name)) << name << " is left over";
  }
  /// Resumes work/run, or runs it again if nothing had been started.
  void go_on(const std::string& recipe, const std::map<std::string, std::string>& whole) const {
    Ended ended = resume();
    if (ended.exit == 66) {
      EXPECT_FALSE(fs::exists(folder_ / "work/run/nodes"));
      ended = run(recipe);
    }
    EXPECT_EQ(ended.exit, 0) << ended.err;
    if (ended.exit == 0) expect_whole(whole);
  }
  /// Returns the results of an undisturbed run; afterward, calls() returns its calls. With the
  /// `action` "copy", the folder is copied before each call.
  std::map<std::string, std::string> run_whole(const std::string& recipe, const std::string& action,
                                               const std::string& more = "") const {
    const Ended ended = run(recipe, watched(action), more);
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_EQ(ended.err.find("writing_calls"), ended.err.npos) << ended.err;
    return results();
  }
  /// Resumes from what is left when all programs are killed before or during each call that `takes`
  /// accepts.
  template <typename Takes>
  void kill_all_before(const std::string& recipe, Takes takes) {
    const auto whole = run_whole(recipe, "copy");
    std::vector<std::pair<std::string, fs::path>> moments;
    for (const Call& call : calls_kept(takes)) {
      if (call.name.ends_with("sync")) continue;  // same state as the next call
      for (const char* ending : {"", "-half"}) {
        std::string number = std::to_string(call.number);
        number.insert(0, 6 - number.size(), '0');
        const fs::path copy = folder_ / ("seen/copies/" + number + ending);
        if (fs::exists(copy)) moments.emplace_back(call.name + ending + " " + call.path, copy);
      }
    }
    ASSERT_FALSE(moments.empty());
    for (const auto& [moment, copy] : moments) {
      SCOPED_TRACE("killed before " + copy.filename().string() + " " + moment);
      fs::remove_all(folder_ / "work");
      fs::rename(copy, folder_ / "work");
      go_on(recipe, whole);
      if (HasFailure()) return;
    }
  }
  /// Kills one program, or makes the call fail, at each call that `takes` accepts.
  template <typename Takes>
  void strike(const std::string& recipe, const std::string& action, Takes takes,
              const std::string& more = "", bool goes_on_by_itself = false) {
    const auto whole = run_whole(recipe, "look", more);
    for (const Call& call : calls_kept(takes)) {
      SCOPED_TRACE(action + " at " + call.program + " " + std::to_string(call.own) + " " +
                   call.name + call.path);
      const std::string at = call.program + ":" + std::to_string(call.own);
      const std::string what = action == "kill" ? "kill:" + at : "fail:" + at + ":" + action;
      const Ended ended = run(recipe, watched(what), more);
      if (goes_on_by_itself) EXPECT_EQ(ended.exit, 0) << ended.err;
      if (ended.exit == 0) expect_whole(whole);
      else go_on(recipe + " " + more, whole);
      if (HasFailure()) return;
    }
  }
  template <typename Takes>
  std::vector<Call> calls_kept(Takes takes) const {
    std::vector<Call> kept;
    for (const Call& call : calls())
      if (takes(call)) kept.push_back(call);
    EXPECT_FALSE(kept.empty());
    return kept;
  }

  SharedFolder folder_;
};

/// Whether a call belongs to saving the last checkpoint of training.yaml: from its rename to the
/// end of the node.
class LastSave {
 public:
  bool operator()(const Call& call) {
    is_begun_ =
        is_begun_ || (call.name == "rename" && call.path.ends_with("checkpoints/step-00000003"));
    is_over_ = is_over_ || (is_begun_ && call.path.find("/nodes/evaluate") != std::string::npos);
    return is_begun_ && !is_over_ && call.path.find("/checkpoints") != std::string::npos;
  }

 private:
  bool is_begun_ = false, is_over_ = false;
};

/// Accepts the calls of LastSave that set the pointers to the checkpoint.
class LastPointers {
 public:
  bool operator()(const Call& call) {
    return is_of_last_save_(call) && (call.path.find("/latest") != std::string::npos ||
                                      call.path.find("/best") != std::string::npos);
  }

 private:
  LastSave is_of_last_save_;
};

TEST_F(InterruptedWrites, BestCheckpointIsTheLastOne) {
  ASSERT_EQ(run("training.yaml").exit, 0);
  EXPECT_EQ(file_text(folder_ / "work/run/nodes/train/checkpoints/best"), "step-00000003\n");
  const auto first = results();
  ASSERT_EQ(run("training.yaml").exit, 0);
  expect_whole(first);
}

TEST_F(InterruptedWrites, ResumesAfterAllProcessesAreKilledDuringTheLastSave) {
  kill_all_before("training.yaml", LastSave());
}
TEST_F(InterruptedWrites, WorkerKilledWhileSettingLastPointersIsRestarted) {
  strike("training.yaml", "kill", LastPointers(), "memory.max_retries=auto",
         /*goes_on_by_itself=*/true);
}
TEST_F(InterruptedWrites, ResumesAfterSettingTheLastPointersFails) {
  strike("training.yaml", std::to_string(EIO), LastPointers());
}

/// All calls, in shares that can run in parallel.
class DeepInterruptedWrites : public InterruptedWrites, public testing::WithParamInterface<int> {
 public:
  static constexpr int kShares = 8;

 protected:
  /// Every eighth of the calls that are tested.
  static bool is_mine(const Call& call) {
    return call.place % kShares == static_cast<std::size_t>(GetParam());
  }
  static auto of(const std::string& program) {
    return [program](const Call& call) { return call.program == program && is_mine(call); };
  }
};
INSTANTIATE_TEST_SUITE_P(Deep, DeepInterruptedWrites,
                         testing::Range(0, DeepInterruptedWrites::kShares));

TEST_P(DeepInterruptedWrites, ResumesTrainingAfterAllProcessesAreKilled) {
  kill_all_before("training.yaml", is_mine);
}
TEST_P(DeepInterruptedWrites, ResumesEnsembleAfterAllProcessesAreKilled) {
  kill_all_before("ensemble.yaml", is_mine);
}
TEST_P(DeepInterruptedWrites, ResumesWithCachedFeaturesAfterAllProcessesAreKilled) {
  kill_all_before(
      "finetune data=image_folder model=linear_probe model/backbone=tiny "
      "model.backbone.num_hidden_layers=1 data.root=photos data.image_size=28 "
      "data.loader.workers=0 threads=1 epochs=2 lr=0.01 train.batch_size=16 "
      "train.checkpoint.every.steps=1",
      is_mine);
}
TEST_P(DeepInterruptedWrites, ResumesTrainingAfterTheWorkerIsKilled) {
  strike("training.yaml", "kill", of("retort-worker"));
}
TEST_P(DeepInterruptedWrites, RestartsTheWorkerAfterItIsKilled) {
  strike("training.yaml", "kill", of("retort-worker"), "memory.max_retries=auto",
         /*goes_on_by_itself=*/true);
}
TEST_P(DeepInterruptedWrites, ResumesAfterSystemCallsOfTheWorkerFail) {
  strike("training.yaml", std::to_string(EIO), of("retort-worker"));
}
TEST_P(DeepInterruptedWrites, ResumesAfterTheWorkerFillsTheDisk) {
  strike("training.yaml", std::to_string(ENOSPC), of("retort-worker"));
}
TEST_P(DeepInterruptedWrites, ResumesAfterSystemCallsOfRetortFail) {
  strike("training.yaml", std::to_string(EIO), of("retort"));
}
TEST_P(DeepInterruptedWrites, ResumesAfterRetortFillsTheDisk) {
  strike("training.yaml", std::to_string(ENOSPC), of("retort"));
}

}  // namespace
