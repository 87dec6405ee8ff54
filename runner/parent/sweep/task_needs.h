#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/run/worker_process.h"
#include "runner/parent/sweep/run_trials.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Runs the commands of a scheduler, which may be slow or never end, and waits between them. While
/// a ClusterCommands exists, signals arrive only through wait().
class ClusterCommands {
 public:
  struct Outcome {
    int exit = -1;           ///< 128 + signal if a signal killed it; -1: it could not be started
    bool is_silent = false;  ///< the command did not finish in time and was killed
    std::string said;        ///< the command's stdout and stderr
  };
  /// Runs a program, found on PATH, with its arguments, waiting at most `patience`.
  Outcome run(const std::vector<std::string>& words, std::chrono::milliseconds patience);
  /// Waits for `time`, or until SIGINT, SIGTERM or SIGHUP arrives; returns that signal, or one that
  /// arrived earlier.
  std::optional<int> wait(std::chrono::milliseconds time);

 private:
  std::optional<int> stopped_by_;
  WorkerSet set_;
};

/// The resources of a cluster task: enough for any trial of the sweep.
struct TaskNeeds {
  std::int64_t cores = 1, gpus = 0;          ///< per machine
  std::optional<std::int64_t> memory_bytes;  ///< per machine; nullopt: the cluster's default
  std::int64_t nodes = 1;                    ///< number of machines
  std::int64_t ranks_on_node = 1;  ///< per machine; with one machine, the trial starts its ranks
                                   ///< itself
};

/// Returns the number of cores for a task that runs the resolved `recipe`, from its
/// `sweep.launcher`; nullopt if there is none. With `threads: auto`, this is also the recipe's
/// number of threads, so it is set before the recipe is hashed.
std::optional<std::int64_t> cores_of_task(const Value& recipe);

/// Returns the number of machines for a task that runs the resolved `recipe`, from its
/// `sweep.launcher`.
std::int64_t nodes_of_task(const Value& recipe);

/// Returns an error if the trials' ranks cannot be divided evenly among a task's machines; all
/// tasks have the same number of machines. `launcher` and `recipes` are resolved and borrowed.
Diagnostics undivided_ranks(const Value& launcher, const std::vector<const Value*>& recipes);

/// Replaces `auto` for cores and GPUs in a launcher's settings with the most that any of `recipes`,
/// resolved and borrowed, needs.
void complete_task(nlohmann::ordered_json& settings, const std::vector<const Value*>& recipes);

/// Returns the needs according to the launcher's settings. If they set memory to auto, it is
/// derived from CPU plans of at most 8 trials, made by retort at `surroundings.program`. If a trial
/// cannot be planned, reports that on `surroundings.err` and leaves the memory up to the cluster.
TaskNeeds task_needs(const nlohmann::ordered_json& settings, const SweepJournal& journal,
                     const TrialSurroundings& surroundings, ClusterCommands& commands);

}  // namespace runner
