#include "runner/parent/report/pooled_predictions.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "runner/parent/report/pooled_measure.h"

namespace runner {
namespace {

/// Sample numbers, in the groups that the bootstrap draws.
struct SampleGroups {
  std::vector<std::vector<std::size_t>> groups;
  bool has_names = false;  // some samples belong to a named group
};

SampleGroups groups_of(std::span<const PooledRow> rows) {
  SampleGroups all;
  std::map<std::string, std::size_t> numbers;
  for (std::size_t sample = 0; sample < rows.size(); ++sample) {
    const auto& column = rows[sample].table->group;
    const std::string group = column ? rows[sample][*column] : "";
    all.has_names |= !group.empty();
    const auto [found, is_new] =
        group.empty() ? std::pair(numbers.end(), true) : numbers.emplace(group, all.groups.size());
    if (is_new) all.groups.emplace_back();
    (is_new ? all.groups.back() : all.groups[found->second]).push_back(sample);
  }
  return all;
}

/// Returns the rows of all tables, without those from which an ensemble abstains.
std::vector<PooledRow> rows_of(std::span<const PredictionTable> tables) {
  std::vector<PooledRow> rows;
  for (const PredictionTable& table : tables) {
    const bool may_abstain = table.has_classes && table.labels.empty();
    for (const std::vector<std::string>& row : table.rows)
      if (!may_abstain || !row[table.predicted].empty()) rows.push_back({&table, &row});
  }
  return rows;
}

/// Returns null if the tables do not determine any metrics.
std::unique_ptr<PooledMeasure> measure_of(std::span<const PredictionTable> tables,
                                          std::span<const PooledRow> rows,
                                          const std::vector<std::size_t>& ks) {
  const PredictionTable& first = tables.front();
  const auto names = [](const auto& columns) {
    std::vector<std::string> all;
    for (const auto& one : columns) all.push_back(one.name);
    return all;
  };
  const bool are_of_a_kind = std::ranges::all_of(tables, [&](const PredictionTable& table) {
    return table.has_classes == first.has_classes && names(table.targets) == names(first.targets) &&
           names(table.labels) == names(first.labels);
  });
  if (rows.empty() || !are_of_a_kind) return nullptr;
  if (!first.targets.empty()) return measure_targets(rows);
  if (!first.labels.empty()) return measure_labels(rows);
  return first.has_classes ? measure_classes(rows, ks) : nullptr;
}

}  // namespace

PooledMetrics pooled_metrics(std::span<const PredictionTable> tables,
                             const std::vector<std::size_t>& ks, std::uint64_t seed) {
  const std::vector<PooledRow> rows = rows_of(tables);
  const std::unique_ptr<PooledMeasure> measure = measure_of(tables, rows, ks);
  if (!measure) return {};
  const SampleGroups all = groups_of(rows);
  const auto groups = std::ssize(all.groups);
  const auto samples = std::ssize(rows);
  const auto width = static_cast<std::int64_t>(
      std::max<std::size_t>({1, tables.front().labels.size(), tables.front().targets.size()}));
  PooledMetrics result{.samples = samples,
                       .groups = groups,
                       .has_groups = all.has_names,
                       .draws = bootstrap_draws(samples * width),
                       .seed = seed,
                       .metrics = {}};
  for (const auto& [name, value] : measure->metrics(std::vector<std::uint32_t>(rows.size(), 1)))
    if (value) result.metrics.push_back({.name = name, .value = *value});
  std::map<std::string, std::vector<double>> drawn;
  DrawnNumbers random(seed);
  std::vector<std::uint32_t> times(rows.size());
  for (std::int64_t draw = 0; draw < result.draws; ++draw) {
    std::ranges::fill(times, 0);
    for (std::int64_t i = 0; i < groups; ++i)
      for (const std::size_t sample : all.groups[random.below(static_cast<std::uint64_t>(groups))])
        ++times[sample];
    for (const auto& [name, value] : measure->metrics(times))
      if (value) drawn[name].push_back(*value);
  }
  for (PooledMetric& metric : result.metrics)
    metric.interval = drawn[metric.name].empty() ? BootstrapInterval{metric.value, metric.value}
                                                 : bootstrap_interval(drawn[metric.name]);
  return result;
}

}  // namespace runner
