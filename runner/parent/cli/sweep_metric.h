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

/// Returns the nodes of one trial.
TrialNodes::value_type nodes_of_trial(const Graph& graph);

/// At which point a metric is used to compare trials.
enum class Compared { kAtTheEnd, kWhileTraining };

/// Returns the full name of the metric that `wanted` specifies; "auto" is returned unchanged. Fails
/// with kUsage if the name is ambiguous or if, according to the schemas, no trial records such a
/// metric; the help suggests the closest name or lists the available ones.
Result<std::string> metric_of_trials(const std::string& wanted, const TrialNodes& trials,
                                     const SchemaSet& schemas,
                                     Compared compared = Compared::kAtTheEnd);

/// Returns the metric that the only training node of `graph` uses to choose its best epoch. Fails
/// with kBadSweep if there is no such metric, or if there are several.
Result<std::string> monitored_metric(const Graph& graph);

}  // namespace runner
