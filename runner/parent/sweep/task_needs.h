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

/// The commands of a scheduler, each of which may take its time or never end, and the waits between
/// them. While it lives, signals come by wait() only.
class ClusterCommands {
 public:
  struct Outcome {
    int exit = -1;           ///< 128 + signal where one killed it; -1: it could not be started
    bool is_silent = false;  ///< it had not ended in time, and was killed
    std::string said;        ///< on both streams
  };
  /// Runs a program, found on PATH, with its arguments, for at most `patience`.
  Outcome run(const std::vector<std::string>& words, std::chrono::milliseconds patience);
  /// Waits that long, or until SIGINT, SIGTERM or SIGHUP comes or has come meanwhile: which it was.
  std::optional<int> wait(std::chrono::milliseconds time);

 private:
  std::optional<int> stopped_by_;
  WorkerSet set_;
};

/// What a task of a cluster is given: enough for any trial of the sweep.
struct TaskNeeds {
  std::int64_t cores = 1, gpus = 0;
  std::optional<std::int64_t> memory_bytes;  ///< nullopt: what the cluster gives by itself
};

/// The cores of a task that runs `recipe`, resolved, which says `sweep.launcher`; nullopt where it
/// says none. They are the threads of a recipe that says `threads: auto`, so they are settled
/// before it is hashed.
std::optional<std::int64_t> cores_of_task(const Value& recipe);

/// Puts numbers in place of `auto` for cores and GPUs in a launcher's settings: what `recipes`,
/// resolved and borrowed, need at most.
void complete_task(nlohmann::ordered_json& settings, const std::vector<const Value*>& recipes);

/// By the launcher's settings and, where its memory is auto, by the plans of at most 8 trials on a
/// CPU, made by `surroundings.program`, retort itself. What cannot be planned is said on
/// `surroundings.talk` and left to the cluster.
TaskNeeds task_needs(const nlohmann::ordered_json& settings, const SweepJournal& journal,
                     const TrialSurroundings& surroundings, ClusterCommands& commands);

}  // namespace runner
