#pragma once

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The classes that a training names and that no folder of its data.image_folder has, each at its
/// option. A folder that is not there is passed over; nothing in it is opened.
Diagnostics unknown_classes(const Graph& graph);

}  // namespace runner
