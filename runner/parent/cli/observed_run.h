#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "runner/parent/run/chosen_device.h"
#include "runner/parent/run/plan_request.h"

namespace runner {

/// A run without a record; a worker observes its training. Everything is borrowed.
struct ObservedRun {
  const Graph& graph;
  const WorkerCommand& worker;
  const OwnDevice& device;               ///< also contains the devices of the other ranks
  const std::filesystem::path& folder;   ///< the run writes only below this folder
  const nlohmann::ordered_json& wanted;  ///< additional members of the request, such as "check"
};

/// Runs the graph on all of its ranks and returns the answer of rank 0. `shown` receives its
/// events, except those that the run itself needs.
Result<nlohmann::ordered_json> run_observed(const ObservedRun& run, const Conversation& shown);

}  // namespace runner
