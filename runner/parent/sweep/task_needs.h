#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/sweep/cluster_commands.h"
#include "runner/parent/sweep/run_trials.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What a task of a cluster is given: enough for any trial of the sweep.
struct TaskNeeds {
  std::int64_t cores = 1, gpus = 0;
  std::optional<std::int64_t> memory_bytes;  ///< nullopt: what the cluster gives by itself
};

/// The cores of a task that runs `recipe`, resolved, which says `sweep.launcher`; nullopt where it says none. They are
/// the threads of a recipe that says `threads: auto`, so they are settled before it is hashed.
std::optional<std::int64_t> cores_of_task(const Value& recipe);

/// Puts numbers in place of `auto` for cores and GPUs in a launcher's settings: what `recipes`, resolved and borrowed,
/// need at most.
void settle_task(nlohmann::ordered_json& settings, const std::vector<const Value*>& recipes);

/// By the launcher's settings and, where its memory is auto, by the plans of at most 8 trials on a CPU, made by
/// `surroundings.program`, retort itself. What cannot be planned is said on `surroundings.talk` and left to the
/// cluster.
TaskNeeds task_needs(const nlohmann::ordered_json& settings, const SweepJournal& journal,
                     const TrialSurroundings& surroundings, ClusterCommands& commands);

}  // namespace runner
