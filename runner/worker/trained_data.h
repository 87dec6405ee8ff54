#pragma once

#include <cstddef>
#include <vector>

#include "runner/worker/executor.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/run_context.h"

namespace runner {

/// What the models that node `index` evaluates have been trained on: by the trainings of its graph, and by those of
/// other runs, where these, or their models, start from the weights of such a run. The parts for validation count too,
/// unless the node is wired to one. A run whose record cannot be read is named by its own folder, where no division is.
std::vector<TrainedData> trained_data(std::size_t index, const Graph& graph, const RunOptions& options);

}  // namespace runner
