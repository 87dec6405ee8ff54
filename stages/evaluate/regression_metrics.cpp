#include "stages/evaluate/regression_metrics.h"

#include <cstdio>

#include <torch/types.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

Json errors_json(const TargetErrors& errors) {
  return {{"mae", errors.mae},
          {"rmse", errors.rmse},
          {"r2", errors.r2 ? Json(*errors.r2) : Json(nullptr)}};
}

/// Returns the number with four significant digits.
std::string in_short(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return text;
}

}  // namespace

RegressionMetrics regression_metrics(const PredictedTargets& tested,
                                     const std::vector<double>& means, std::int64_t draws,
                                     std::uint64_t seed) {
  RegressionMetrics metrics{.samples = tested.targets.size(0),
                            .of_targets = target_errors(tested.predictions, tested.targets),
                            .draws = draws};
  metrics.mean = mean_errors(metrics.of_targets);
  if (!means.empty()) {
    const at::Tensor constant = torch::tensor(means, at::kDouble).expand_as(tested.targets);
    metrics.baseline_of = target_errors(constant.contiguous(), tested.targets);
    metrics.baseline = mean_errors(metrics.baseline_of);
  }
  std::map<std::string, std::vector<double>> drawn;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const TargetErrors errors = mean_errors(target_errors(
        tested.predictions, tested.targets, bootstrap_times(metrics.samples, seed, draw)));
    drawn["mae"].push_back(errors.mae);
    drawn["rmse"].push_back(errors.rmse);
    if (errors.r2 && metrics.mean.r2) drawn["r2"].push_back(*errors.r2);
  }
  for (auto& [name, values] : drawn) metrics.intervals[name] = percentile_interval(values);
  return metrics;
}

std::int64_t regression_metric_bytes(std::int64_t samples, std::int64_t targets) {
  // The predictions and a constant prediction in float64, and the draws of a bootstrap.
  return samples *
         static_cast<std::int64_t>(3 * static_cast<std::size_t>(targets) * sizeof(double) +
                                   sizeof(std::int32_t));
}

std::vector<std::pair<std::string, double>> summary(const RegressionMetrics& metrics,
                                                    const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, double>> values = {{"mae", metrics.mean.mae},
                                                        {"rmse", metrics.mean.rmse}};
  if (metrics.mean.r2) values.emplace_back("r2", *metrics.mean.r2);
  if (metrics.baseline) {
    values.emplace_back("baseline_mae", metrics.baseline->mae);
    values.emplace_back("baseline_rmse", metrics.baseline->rmse);
  }
  for (std::size_t i = 0; names.size() > 1 && i < names.size(); ++i) {
    const TargetErrors& own = metrics.of_targets[i];
    values.emplace_back("mae/" + names[i], own.mae);
    values.emplace_back("rmse/" + names[i], own.rmse);
    if (own.r2) values.emplace_back("r2/" + names[i], *own.r2);
  }
  values.emplace_back("samples", static_cast<double>(metrics.samples));
  return values;
}

Json to_json(const RegressionMetrics& metrics, const std::vector<std::string>& names) {
  Json json = {{"samples", metrics.samples}};
  json.update(errors_json(metrics.mean));
  if (!metrics.intervals.empty()) {
    json["intervals"] = {{"confidence", 0.95}, {"draws", metrics.draws}};
    for (const auto& [name, interval] : metrics.intervals)
      json["intervals"][name] = {interval.low, interval.high};
  }
  json["baseline"] = metrics.baseline ? errors_json(*metrics.baseline) : Json(nullptr);
  json["per_target"] = Json::array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    Json own = {{"target", names[i]}};
    own.update(errors_json(metrics.of_targets[i]));
    own["baseline"] = metrics.baseline ? errors_json(metrics.baseline_of[i]) : Json(nullptr);
    json["per_target"].push_back(std::move(own));
  }
  return json;
}

std::string headline(const RegressionMetrics& metrics) {
  const auto with_interval = [&](const std::string& name, double value) {
    const auto found = metrics.intervals.find(name);
    if (found == metrics.intervals.end()) return in_short(value);
    return in_short(value) + " (95% interval " + in_short(found->second.low) + "–" +
           in_short(found->second.high) + ")";
  };
  std::string text = "mean absolute error " + with_interval("mae", metrics.mean.mae);
  if (metrics.baseline) text += ", " + in_short(metrics.baseline->mae) + " for the training mean";
  text += "; root mean squared error " + with_interval("rmse", metrics.mean.rmse) + "; R² ";
  text += metrics.mean.r2 ? with_interval("r2", *metrics.mean.r2) : std::string("undefined");
  return text + ", " + std::to_string(metrics.samples) + " samples";
}

}  // namespace stages
