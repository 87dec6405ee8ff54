#pragma once

#include <string>
#include <vector>

#include "runner/shared/graph/graph.h"

namespace runner {

/// For each node a SHA-256, in hexadecimal, of all that its result follows from: kind, options, seed and the keys of
/// what it takes in. Two nodes of the same key have the same result, as far as data and program are the same.
std::vector<std::string> node_keys(const Graph& graph);

}  // namespace runner
