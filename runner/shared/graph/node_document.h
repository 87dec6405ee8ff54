#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/graph/graph.h"

namespace runner {

/// What a stage reports about itself in addition to its options (stage.h).
struct StageFacts {
  std::string fingerprint;
  bool uses_seed = true;
};

/// Returns everything that the result of node `index` depends on, apart from the program: {"world",
/// "nodes": {id: {"kind", "version", "options", "inputs", "fingerprint", "seed"}}}. "nodes"
/// contains the node itself and every node that it depends on. `facts` is indexed by node. The
/// document contains no secrets.
nlohmann::json node_document(const Graph& graph, std::span<const StageFacts> facts,
                             std::size_t index, const nlohmann::json& world);

/// Returns the SHA-256 of the document, in hexadecimal. Nodes with the same key have the same
/// result.
std::string document_key(const nlohmann::json& document);

/// Describes in words how two documents of a node differ: "data.image_size was 224 and is now 336",
/// "the files of 'data' have changed". The documents may come from a file with arbitrary contents.
std::vector<std::string> differences(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace runner
