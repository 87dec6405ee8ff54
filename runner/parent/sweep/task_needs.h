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
/// it lives, signals arrive only through wait().
class ClusterCommands {
 public:
  struct Outcome {
    int exit = -1;           ///< 128 + signal if a signal killed it; -1: it could not be started
    bool is_silent = false;  ///< it did not end in time, and was killed
    std::string said;        ///< its stdout and stderr
  };
  /// Runs a program, found on PATH, with its arguments, for at most `patience`.
  Outcome run(const std::vector<std::string>& words, std::chrono::milliseconds patience);
  /// Waits that long, or until SIGINT, SIGTERM or SIGHUP arrives or has arrived before; returns it.
  std::optional<int> wait(std::chrono::milliseconds time);

 private:
  std::optional<int> stopped_by_;
  WorkerSet set_;
};

/// What a task of a cluster gets: enough for any trial of the sweep.
struct TaskNeeds {
  std::int64_t cores = 1, gpus = 0;          ///< on each of its machines
  std::optional<std::int64_t> memory_bytes;  ///< the same; nullopt: the cluster's default
  std::int64_t nodes = 1;                    ///< its machines
  std::int64_t ranks_on_node = 1;  ///< of a trial; with one machine the trial starts them itself
};

/// The cores of a task that runs `recipe`, resolved, by its `sweep.launcher`; nullopt if that sets
/// none. They are the threads of a recipe with `threads: auto`, so they are set before it is
/// hashed.
std::optional<std::int64_t> cores_of_task(const Value& recipe);

/// The machines of a task that runs `recipe`, resolved, by its `sweep.launcher`.
std::int64_t nodes_of_task(const Value& recipe);

/// An error if the ranks of the trials cannot be divided among the machines of their tasks, which
/// all have as many. Everything is resolved: the launcher's settings, and the recipes, borrowed.
Diagnostics undivided_ranks(const Value& launcher, const std::vector<const Value*>& recipes);

/// Replaces `auto` for cores and GPUs in a launcher's settings by the most that any of `recipes`,
/// resolved and borrowed, needs.
void complete_task(nlohmann::ordered_json& settings, const std::vector<const Value*>& recipes);

/// From the launcher's settings and, if its memory is auto, from the plans of at most 8 trials on a
/// CPU, made by `surroundings.program`, retort itself. What cannot be planned is reported on
/// `surroundings.err` and left to the cluster.
TaskNeeds task_needs(const nlohmann::ordered_json& settings, const SweepJournal& journal,
                     const TrialSurroundings& surroundings, ClusterCommands& commands);

}  // namespace runner
