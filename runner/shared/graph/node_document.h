#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/graph/graph.h"

namespace runner {

/// What a stage says of itself besides its options (stage.h).
struct StageFacts {
  std::string fingerprint;
  bool uses_seed = true;
};

/// All that the result of node `index` follows from, as far as the program does the same: {"world",
/// "nodes": {id:
/// {"kind", "version", "options", "inputs", "fingerprint", "seed"}}}, with a member of "nodes" for
/// it and for each node that it depends on. `facts` is by node. No secret is in it.
nlohmann::json node_document(const Graph& graph, std::span<const StageFacts> facts,
                             std::size_t index, const nlohmann::json& world);

/// A SHA-256 of it, in hexadecimal: nodes of the same key have the same result.
std::string document_key(const nlohmann::json& document);

/// Where two documents of a node differ, in words: "data.image_size was 224 and is now 336", "the
/// files of 'data' have changed". Documents may come from a file that anything may have happened
/// to.
std::vector<std::string> differences(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace runner
