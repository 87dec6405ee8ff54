#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/report/table_text.h"
#include "runner/parent/sweep/cross_validation.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownFoldMetrics = 4;
constexpr int kFoldDigits = 4;

const PooledMetric* pooled_metric(const CrossValidation& all, const std::string& name) {
  if (!all.pooled) return nullptr;
  const auto found = std::ranges::find(all.pooled->metrics, name, &PooledMetric::name);
  return found == all.pooled->metrics.end() ? nullptr : &*found;
}

std::string fold_number(const std::optional<double>& value) {
  return value ? decimal(*value, kFoldDigits) : "–";
}

}  // namespace

TableRows fold_rows(const CrossValidation& all) {
  std::vector<FoldMean> means = all.means();
  means.resize(std::min(means.size(), kShownFoldMetrics));
  TableRows rows = {{"fold", "trial", "state", "samples"}};
  for (const FoldMean& mean : means) rows[0].push_back(mean.metric);
  for (const FoldResult& one : all.folds) {
    rows.push_back({std::to_string(one.fold), std::to_string(one.trial),
                    std::string(name(one.state)),
                    one.predictions ? std::to_string(one.predictions->rows.size()) : "–"});
    for (const FoldMean& mean : means) {
      const auto found = one.metrics.find(mean.metric);
      rows.back().push_back(
          fold_number(found == one.metrics.end() ? std::nullopt : std::optional(found->second)));
    }
  }
  std::vector<std::string> mean_row = {"mean", "", "", ""}, deviations = {"SD", "", "", ""};
  for (const FoldMean& mean : means) {
    mean_row.push_back(fold_number(mean.mean));
    deviations.push_back(fold_number(mean.deviation));
  }
  if (!means.empty()) rows.insert(rows.end(), {std::move(mean_row), std::move(deviations)});
  if (!all.pooled) return rows;
  std::vector<std::string> pooled = {"pooled", "", "", std::to_string(all.pooled->samples)},
                           intervals = {"95%", "", "", ""};
  for (const FoldMean& mean : means) {
    const PooledMetric* const metric = pooled_metric(all, mean.metric);
    pooled.push_back(metric ? fold_number(metric->value) : "–");
    intervals.push_back(metric ? fold_number(metric->interval.low) + "–" +
                                     fold_number(metric->interval.high)
                               : "–");
  }
  rows.insert(rows.end(), {std::move(pooled), std::move(intervals)});
  return rows;
}

std::string fold_remarks(const CrossValidation& all) {
  if (all.pooled)
    return "95% intervals: bootstrap of " + std::to_string(all.pooled->groups) +
           (all.pooled->has_groups ? " groups" : " samples") + ", " +
           std::to_string(all.pooled->draws) + " draws\n";
  const auto measured =
      std::ranges::count_if(all.folds, [](const FoldResult& one) { return !one.metrics.empty(); });
  return "nothing is pooled: " + all.not_pooled + "; mean and SD are over " +
         std::to_string(measured) + " of " + std::to_string(all.count) + " folds\n";
}

std::string cross_validation_text(const std::vector<CrossValidation>& all, const TextStyle& style) {
  std::string text;
  for (const CrossValidation& one : all) {
    text += "\ncross-validation over " + std::to_string(one.count) + " folds";
    if (!one.node.empty()) text += ", " + one.node;
    if (!one.settings.empty()) text += ", " + one.settings;
    text += ":\n" + table_text(fold_rows(one), style.table_width()) + fold_remarks(one);
  }
  return text;
}

std::string out_of_fold_csv(const std::vector<CrossValidation>& all) {
  std::vector<std::string> columns;
  for (const CrossValidation& one : all)
    for (const FoldResult& fold : one.folds)
      if (fold.predictions)
        for (const std::string& column : fold.predictions->columns)
          if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
  if (columns.empty()) return "";
  std::vector<std::string> head = {"trial", "fold", "node"};
  head.insert(head.end(), columns.begin(), columns.end());
  std::string text = csv_line(head);
  for (const CrossValidation& one : all) {
    for (const FoldResult& fold : one.folds) {
      if (!fold.predictions) continue;
      const std::vector<std::string>& own = fold.predictions->columns;
      for (const std::vector<std::string>& row : fold.predictions->rows) {
        std::vector<std::string> fields = {std::to_string(fold.trial), std::to_string(fold.fold),
                                           one.node};
        for (const std::string& column : columns) {
          const auto place = std::ranges::find(own, column) - own.begin();
          fields.push_back(place < std::ssize(own) ? row[static_cast<std::size_t>(place)] : "");
        }
        text += csv_line(fields);
      }
    }
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<CrossValidation>& all) {
  Json list = Json::array();
  for (const CrossValidation& one : all) {
    Json folds = Json::array(), means = Json::array();
    for (const FoldResult& fold : one.folds) {
      Json metrics = Json::object();
      for (const auto& [name, value] : fold.metrics) metrics[name] = number_json(value);
      folds.push_back(
          {{"fold", fold.fold},
           {"trial", fold.trial},
           {"state", name(fold.state)},
           {"samples", fold.predictions ? Json(fold.predictions->rows.size()) : Json(nullptr)},
           {"metrics", std::move(metrics)}});
    }
    for (const FoldMean& mean : one.means())
      means.push_back(
          {{"metric", mean.metric},
           {"folds", mean.folds},
           {"mean", number_json(mean.mean)},
           {"deviation", mean.deviation ? number_json(*mean.deviation) : Json(nullptr)}});
    Json pooled = nullptr;
    if (one.pooled) {
      Json metrics = Json::array();
      for (const PooledMetric& metric : one.pooled->metrics)
        metrics.push_back({{"metric", metric.name},
                           {"value", metric.value},
                           {"interval", {metric.interval.low, metric.interval.high}}});
      pooled = {{"samples", one.pooled->samples},
                {"groups", one.pooled->has_groups ? Json(one.pooled->groups) : Json(nullptr)},
                {"draws", one.pooled->draws},
                {"seed", one.pooled->seed},
                {"metrics", std::move(metrics)}};
    }
    list.push_back({{"settings", one.settings},
                    {"node", one.node.empty() ? Json(nullptr) : Json(one.node)},
                    {"count", one.count},
                    {"folds", std::move(folds)},
                    {"means", std::move(means)},
                    {"pooled", std::move(pooled)},
                    {"not_pooled", one.pooled ? Json(nullptr) : Json(one.not_pooled)}});
  }
  return list;
}

}  // namespace runner
