#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Returns a kChangedRun, without advice, for each checkpoint that was copied from elsewhere into
/// the run in `folder`: its state.json names a recipe or a node that no graph.json of the run names
/// and no resume has accepted. Training results reused from another run are not checked. Skips
/// unreadable files, since the code that loads them reports what is wrong.
Diagnostics foreign_checkpoints(const std::filesystem::path& folder, const Graph& graph);

/// Returns the value of "accepted" in graph.json for a run that continues with its present
/// checkpoints: {node: [[recipe_hash, seed]]}.
nlohmann::ordered_json accepted_checkpoints(const std::filesystem::path& folder,
                                            const Graph& graph);

}  // namespace runner
