#include "runner/parent/cli/sweep_metric.h"

#include <algorithm>
#include <string_view>

#include "runner/parent/record/run_summary.h"
#include "runner/parent/report/main_metric.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

constexpr std::size_t kMetricsInHelp = 12;

using NodesOfTrial = TrialNodes::value_type;

bool is_compared(const std::string& kind, Compared compared) {
  return compared == Compared::kAtTheEnd || family_of(kind) == Family::kTrain;
}

/// Returns the ids of the nodes of a trial that record `metric`.
std::vector<std::string> recorded_by(const std::string& metric, const NodesOfTrial& nodes,
                                     const SchemaSet& schemas, Compared compared) {
  std::vector<std::string> ids;
  for (const auto& [id, name] : nodes) {
    const Kind* kind = is_compared(name, compared) ? schemas.kind(name) : nullptr;
    const auto covers = [&](const DeclaredMetric& declared) { return declared.covers(metric); };
    if (kind && std::ranges::any_of(kind->metrics, covers)) ids.push_back(id);
  }
  return ids;
}

/// Returns the metrics under their recorded names, with the node's id if several nodes record them.
/// Excludes metrics with names that depend on options or data.
std::vector<std::string> metrics_of_trial(const NodesOfTrial& nodes, const SchemaSet& schemas,
                                          Compared compared) {
  std::vector<std::string> names;
  for (const auto& [id, name] : nodes) {
    const Kind* kind = is_compared(name, compared) ? schemas.kind(name) : nullptr;
    if (!kind) continue;
    for (const DeclaredMetric& metric : kind->metrics) {
      if (metric.name.find_first_of("*#") != std::string::npos) continue;
      const bool is_single = recorded_by(metric.name, nodes, schemas, compared).size() == 1;
      names.push_back(is_single ? metric.name : id + ":" + metric.name);
    }
  }
  return names;
}

/// Returns the metrics of one trial that match `wanted`.
std::vector<std::string> meant_in_trial(const std::string& wanted, const NodesOfTrial& nodes,
                                        const SchemaSet& schemas, Compared compared) {
  std::vector<std::string> meant =
      metrics_meant(wanted, metrics_of_trial(nodes, schemas, compared));
  if (!meant.empty()) return meant;
  const std::size_t colon = wanted.find(':');
  const std::string name = colon == wanted.npos ? wanted : wanted.substr(colon + 1);
  const std::vector<std::string> ids = recorded_by(name, nodes, schemas, compared);
  for (const std::string& id : ids)
    if (colon == wanted.npos || wanted.substr(0, colon) == id)
      meant.push_back(ids.size() == 1 ? name : id + ":" + name);
  return meant;
}

/// Returns a sort key: validation metrics come first, then evaluation metrics, then all others.
int interest(const std::string& metric) {
  const std::string_view name = std::string_view(metric).substr(metric.find(':') + 1);
  return name.starts_with("validation/") ? 0 : name.starts_with("evaluate/") ? 1 : 2;
}

}  // namespace

NodesOfTrial nodes_of_trial(const Graph& graph) {
  NodesOfTrial nodes;
  for (const Node& node : graph.nodes) nodes.emplace_back(node.id, node.kind);
  return nodes;
}

Result<std::string> metric_of_trials(const std::string& wanted, const TrialNodes& trials,
                                     const SchemaSet& schemas, Compared compared) {
  if (wanted == "auto") return wanted;
  std::set<std::string> meant;
  std::vector<std::string> all;
  for (const NodesOfTrial& nodes : trials) {
    for (std::string& one : meant_in_trial(wanted, nodes, schemas, compared))
      meant.insert(std::move(one));
    for (std::string& one : metrics_of_trial(nodes, schemas, compared))
      if (std::ranges::find(all, one) == all.end()) all.push_back(std::move(one));
  }
  if (meant.size() == 1) return *meant.begin();
  if (!meant.empty()) {
    return Diagnostic{
        ErrorCode::kUsage,
        {},
        "",
        "the metric '" + wanted + "' may be " +
            either(std::vector<std::string>(meant.begin(), meant.end()), kMetricsInHelp),
        "write the full name of the one you mean"};
  }
  std::ranges::stable_sort(all, {}, interest);
  const std::string near = did_you_mean_path(wanted, all);
  const std::string there =
      all.empty() ? "this recipe records no metrics" : "there are " + listed(all, kMetricsInHelp);
  return Diagnostic{ErrorCode::kUsage,
                    {},
                    "",
                    "no trial can have the metric '" + wanted + "'" +
                        (compared == Compared::kWhileTraining ? " while it trains" : ""),
                    near.empty() ? there : near + "; " + there};
}

Result<std::string> monitored_metric(const Graph& graph) {
  std::vector<std::string> metrics;
  for (const Node& node : graph.nodes)
    if (const auto monitor = monitor_of(node.options)) metrics.push_back(monitor->metric);
  if (metrics.size() == 1) return metrics.front();
  return Diagnostic{
      ErrorCode::kBadSweep,
      {},
      "/sweep/asha/metric",
      metrics.empty()
          ? "sweep.asha compares trials while they train, but these trials do not train anything"
          : "sweep.asha compares trials by the metric that their training stage monitors, but each "
            "of these trials has " +
                std::to_string(metrics.size()) + " training nodes",
      metrics.empty() ? "leave sweep.asha out"
                      : "choose the metric: sweep.asha.metric=NODE:validation/loss"};
}

}  // namespace runner
