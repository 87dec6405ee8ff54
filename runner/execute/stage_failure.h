#pragma once

#include "runner/error/diagnostic.h"
#include "runner/graph/graph.h"

namespace runner {

/// The exception being handled, which a stage has thrown, as an error at the node's place in the recipe. Of a text of
/// many lines, such as LibTorch's with its backtrace, the first is for the user; all of it goes to stderr, the log.
Diagnostic stage_failure(const Node& node);

}  // namespace runner
