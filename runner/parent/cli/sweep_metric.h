#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The nodes of the trials of a sweep, by id and kind: of trials that have the same ones, once.
using TrialNodes = std::set<std::vector<std::pair<std::string, std::string>>>;

/// Those of one trial.
TrialNodes::value_type nodes_of_trial(const Graph& graph);

/// When trials are compared by a metric.
enum class Compared { kAtTheEnd, kWhileTraining };

/// The metric that `wanted` means, by its whole name: one that some trial can have, by what the
/// schemas say that its kinds record. "auto" stays. kUsage, with the nearest name or what there is,
/// where no trial can have it, or where it may be several.
Result<std::string> metric_of_trials(const std::string& wanted, const TrialNodes& trials,
                                     const SchemaSet& schemas,
                                     Compared compared = Compared::kAtTheEnd);

/// The metric by which the only training of `graph` says which of its epochs is best. kBadSweep
/// where it has none, or several.
Result<std::string> monitored_metric(const Graph& graph);

}  // namespace runner
