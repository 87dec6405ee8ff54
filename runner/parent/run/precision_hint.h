#pragma once

#include <string>
#include <string_view>

#include "runner/shared/graph/graph.h"

namespace runner {

/// Returns a line with the overrides for a GPU's faster number formats, bf16 and TF32, if it has
/// them and no memory policy in `graph` requests a format other than fp32. Empty otherwise, or if
/// `capability`, the GPU's compute capability times ten, is 0 (unknown). These formats are never
/// chosen automatically, because they change the training.
std::string precision_hint(const Graph& graph, std::string_view gpu, int capability);

}  // namespace runner
