#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"

namespace runner {

/// Trainings that an earlier run has done, by node.
using CheckpointSources = std::map<std::string, CheckpointSource>;

/// As protocol.md has it: {node: {"folder", "choice"}}, and "weights" where that is asked for.
/// checkpoint_sources_from_json throws std::runtime_error on anything else.
nlohmann::ordered_json to_json(const CheckpointSources& nodes);
CheckpointSources checkpoint_sources_from_json(const nlohmann::ordered_json& json);

/// "kept", "best", "latest" or "this".
std::string_view name(CheckpointSource::Choice choice);

/// How a run makes use of the nodes that others have finished.
struct ReuseOptions {
  /// Of which nodes the results are taken: of none, of those whose kind says x-cacheable, of every
  /// node.
  enum class Which { kNone, kCacheable, kAll };
  std::filesystem::path index;  ///< where they are found (node_index.h); empty: nowhere
  Which which = Which::kCacheable;
  nlohmann::json world = nlohmann::json::object();  ///< what results follow from besides the graph:
                                                    ///< device, threads, library
};

/// "none", "cacheable" or "all"; reuse_named throws std::runtime_error for anything else.
std::string_view name(ReuseOptions::Which which);
ReuseOptions::Which reuse_named(std::string_view name);

}  // namespace runner
