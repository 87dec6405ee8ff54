#pragma once

#include <string>

#include "runner/graph/graph.h"
#include "runner/error/result.h"
#include "runner/record/recorded_run.h"
#include "runner/protocol/trained_weights.h"

namespace runner {

/// The trainings among the nodes of `graph`, and where in the folder of `run`, which ran it, their weights are.
/// `which`: "best", "latest", a checkpoint's folder, or empty for what each training keeps. kNoCheckpoint where there
/// is no training or one has saved nothing, kUsage where a folder is given for several.
Result<TrainedNodes> find_trained_nodes(const RecordedRun& run, const Graph& graph, const std::string& which);

/// The node to predict with: `wanted`, or where that is empty the only one of `trained`; else kUsage.
Result<std::string> choose_trained_node(const TrainedNodes& trained, const std::string& wanted);

}  // namespace runner
