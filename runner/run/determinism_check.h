#pragma once

#include <cstdint>
#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "runner/graph/graph.h"
#include "runner/error/result.h"
#include "runner/run/worker_process.h"

namespace runner {

class ProgressDisplay;

/// What `retort doctor determinism` does: has two fresh workers, one after the other, make the first `steps` steps of
/// every training of `graph`, and compares every tensor of every step.
///
/// Returns what stages/worker/determinism_check.h says of the second: {"steps", "tensors", "difference"}. Errors of the
/// runs have pointers into the recipe but no places; kNothingCompared where the graph trains nothing. What the runs
/// write lies below `scratch`, which the caller makes and takes away.
Result<nlohmann::ordered_json> check_determinism(const Graph& graph, std::int64_t steps, const WorkerCommand& worker,
                                                 const std::filesystem::path& scratch, ProgressDisplay& display);

}  // namespace runner
