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

/// The format of protocol.md: {node: {"folder", "choice"}}, and "weights" if requested.
/// checkpoint_sources_from_json throws std::runtime_error on anything else.
nlohmann::ordered_json to_json(const CheckpointSources& nodes);
CheckpointSources checkpoint_sources_from_json(const nlohmann::ordered_json& json);

/// "kept", "best", "latest" or "this".
std::string_view name(CheckpointSource::Choice choice);

/// How a run reuses the nodes that other runs have finished.
struct ReuseOptions {
  /// Which nodes reuse results: none, those whose kind says x-cacheable, or all.
  enum class Which { kNone, kCacheable, kAll };
  std::filesystem::path index;  ///< where they are found (node_index.h); empty: nowhere
  Which which = Which::kCacheable;
  nlohmann::json world = nlohmann::json::object();  ///< what results depend on in addition to the
                                                    ///< graph: device, threads, library
};

/// "none", "cacheable" or "all"; reuse_named throws std::runtime_error for anything else.
std::string_view name(ReuseOptions::Which which);
ReuseOptions::Which reuse_named(std::string_view name);

}  // namespace runner
