#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The nodes of a sweep's trials, by id and kind. Trials with the same nodes share one entry.
using TrialNodes = std::set<std::vector<std::pair<std::string, std::string>>>;

/// The nodes of one trial.
TrialNodes::value_type nodes_of_trial(const Graph& graph);

/// When a metric compares trials.
enum class Compared { kAtTheEnd, kWhileTraining };

/// The full name of the metric that `wanted` means. Some trial must be able to record it, by what
/// the schemas say about its kinds. "auto" stays. kUsage, with the nearest name or the available
/// ones, if no trial can have it, or if it is ambiguous.
Result<std::string> metric_of_trials(const std::string& wanted, const TrialNodes& trials,
                                     const SchemaSet& schemas,
                                     Compared compared = Compared::kAtTheEnd);

/// The metric by which the only training of `graph` picks its best epoch. kBadSweep if there is no
/// such metric, or several.
Result<std::string> monitored_metric(const Graph& graph);

}  // namespace runner
