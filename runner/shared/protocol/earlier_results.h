#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"

namespace runner {

/// Checkpoints of training nodes that an earlier run has finished, by node.
using CheckpointSources = std::map<std::string, CheckpointSource>;

/// Converts to and from the format in protocol.md: {node: {"folder", "choice"}}, with "weights" if
/// requested. checkpoint_sources_from_json() throws std::runtime_error for anything else.
nlohmann::ordered_json to_json(const CheckpointSources& nodes);
CheckpointSources checkpoint_sources_from_json(const nlohmann::ordered_json& json);

/// Returns "kept", "best", "latest" or "this".
std::string_view name(CheckpointSource::Choice choice);

/// How a run reuses the results of nodes that other runs have finished.
struct ReuseOptions {
  /// Which nodes reuse results: none, those of kinds with x-cacheable, or all.
  enum class Which { kNone, kCacheable, kAll };
  std::filesystem::path index;  ///< the index of results (node_index.h); empty: none
  Which which = Which::kCacheable;
  nlohmann::json world = nlohmann::json::object();  ///< what else results depend on: device,
                                                    ///< threads, library
};

/// Converts to and from "none", "cacheable" or "all". reuse_named() throws std::runtime_error for
/// any other name.
std::string_view name(ReuseOptions::Which which);
ReuseOptions::Which reuse_named(std::string_view name);

}  // namespace runner
