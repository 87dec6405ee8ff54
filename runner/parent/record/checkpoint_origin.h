#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// kChangedRun, without advice, for each checkpoint in the run in `folder` that was put there: by
/// its state.json it was saved by a recipe, or by a node, that no graph.json of the run names, and
/// no resume has accepted. A training taken from another run has none. What cannot be read is
/// passed over: whoever loads it says what is wrong.
Diagnostics foreign_checkpoints(const std::filesystem::path& folder, const Graph& graph);

/// What graph.json holds as "accepted" where a run goes on with the checkpoints that it has: {node:
/// [[recipe_hash, seed]]}.
nlohmann::ordered_json accepted_checkpoints(const std::filesystem::path& folder,
                                            const Graph& graph);

}  // namespace runner
