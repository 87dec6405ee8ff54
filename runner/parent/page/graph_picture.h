#pragma once

#include "runner/parent/svg/drawing.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Draws the stages of a graph as boxes, from the data on the left to the evaluation on the right,
/// and the artifacts that flow between them as lines. The nodes of a stage with `foreach` share one
/// box, which shows their number. `graph` must have at least one node.
Drawing draw_stages(const Graph& graph);

}  // namespace runner
