#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Returns a kChangedRun error, without advice, for each checkpoint that was copied into the run in
/// `folder` from elsewhere: its state.json names a recipe or node that is in none of the run's
/// graph.json files and that no resume has accepted. Training results reused from another run are
/// not checked. Skips unreadable files, since the code that loads them will report what is wrong.
Diagnostics foreign_checkpoints(const std::filesystem::path& folder, const Graph& graph);

/// Returns the value of "accepted" in graph.json for a run that continues with the checkpoints it
/// currently has: {node: [[recipe_hash, seed]]}.
nlohmann::ordered_json accepted_checkpoints(const std::filesystem::path& folder,
                                            const Graph& graph);

}  // namespace runner
