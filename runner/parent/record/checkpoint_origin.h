#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// kChangedRun, without advice, for each checkpoint that was put into the run in `folder` from
/// elsewhere: its state.json names a recipe or a node that no graph.json of the run names, and that
/// no resume has accepted. A training reused from another run has none. Unreadable files are
/// skipped: the code that loads them reports what is wrong.
Diagnostics foreign_checkpoints(const std::filesystem::path& folder, const Graph& graph);

/// What graph.json holds as "accepted" if a run continues with the checkpoints that it has: {node:
/// [[recipe_hash, seed]]}.
nlohmann::ordered_json accepted_checkpoints(const std::filesystem::path& folder,
                                            const Graph& graph);

}  // namespace runner
