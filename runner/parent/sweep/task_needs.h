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
  std::int64_t cores = 1, gpus = 0;
  std::optional<std::int64_t> memory_bytes;  ///< nullopt: the cluster's default
};

/// The cores of a task that runs `recipe`, resolved, by its `sweep.launcher`; nullopt if that sets
/// none. They are the threads of a recipe with `threads: auto`, so they are set before it is
/// hashed.
std::optional<std::int64_t> cores_of_task(const Value& recipe);

/// Replaces `auto` for cores and GPUs in a launcher's settings by the most that any of `recipes`,
/// resolved and borrowed, needs.
void complete_task(nlohmann::ordered_json& settings, const std::vector<const Value*>& recipes);

/// From the launcher's settings and, if its memory is auto, from the plans of at most 8 trials on a
/// CPU, made by `surroundings.program`, retort itself. What cannot be planned is reported on
/// `surroundings.err` and left to the cluster.
TaskNeeds task_needs(const nlohmann::ordered_json& settings, const SweepJournal& journal,
                     const TrialSurroundings& surroundings, ClusterCommands& commands);

}  // namespace runner
