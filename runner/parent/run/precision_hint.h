#pragma once

#include <string>
#include <string_view>

#include "runner/shared/graph/graph.h"

namespace runner {

/// Returns a line that names the overrides for the faster number formats of a GPU, bf16 and TF32,
/// if it has them and no memory policy of `graph` asks for any other format than fp32. Empty
/// otherwise, and if `capability`, the GPU's compute capability times ten, is 0: unknown. Nothing
/// chooses these formats by itself, because they change the training.
std::string precision_hint(const Graph& graph, std::string_view gpu, int capability);

}  // namespace runner
