#include "stages/artifact/fitted_decision.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include <torch/types.h>

#include "stages/artifact/cut_points.h"
#include "stages/artifact/model.h"
#include "stages/artifact/temperature.h"

namespace stages {
namespace {

constexpr const char* kTemperature = "temperature";
constexpr const char* kThreshold = "decision_threshold";
constexpr std::string_view kCutPoint = "cut_point/";

std::vector<ScoredClass> scored_classes(const at::Tensor& rows, double temperature) {
  const std::int64_t classes = rows.size(1) - 1;
  const at::Tensor logits = rows.slice(1, 0, classes).to(at::kDouble) / temperature;
  std::vector<ScoredClass> samples;
  samples.reserve(static_cast<std::size_t>(rows.size(0)));
  for (std::int64_t row = 0; row < rows.size(0); ++row)
    samples.push_back(
        {class_scores(logits, row), rows[row][classes].to(at::kLong).item<std::int64_t>()});
  return samples;
}

std::vector<double> fitted_cut_points(const std::vector<ScoredClass>& samples) {
  std::vector<ExpectedGrade> grades;
  for (const auto& [scores, label] : samples)
    grades.push_back({expected_grade(scores.probabilities()), label});
  return best_cut_points(std::move(grades), samples.front().scores.classes());
}

/// Returns the largest threshold that reaches the sensitivity; nullopt if no sample is positive.
std::optional<double> threshold_at(const std::vector<ScoredClass>& samples, double sensitivity) {
  std::vector<double> positives;
  for (const auto& [scores, label] : samples)
    if (label == 1) positives.push_back(scores.probability(1));
  if (positives.empty()) return std::nullopt;
  std::ranges::sort(positives, std::greater{});
  const double needed = std::ceil(sensitivity * static_cast<double>(positives.size()));
  return positives[std::max<std::size_t>(1, static_cast<std::size_t>(needed)) - 1];
}

/// Returns the first class at which the cumulative probability reaches one half.
std::int64_t median_class(const ClassScores& scores) {
  constexpr double kHalf = 0.5;
  const std::int64_t last = scores.classes() - 1;
  double sum = 0;
  for (std::int64_t label = 0; label < last; ++label) {
    sum += scores.probability(label);
    if (sum >= kHalf) return label;
  }
  return last;
}

ClassScores before_temperature(const ClassScores& scores, double temperature) {
  std::vector<double> logits;
  for (std::int64_t label = 0; label < scores.classes(); ++label)
    logits.push_back(scores.logit(label) * temperature);
  return ClassScores(std::move(logits));
}

}  // namespace

std::int64_t FittedDecision::predicted(const ClassScores& scores) const {
  if (threshold) return scores.probability(1) >= *threshold ? 1 : 0;
  if (cut_points.empty()) {
    return ordinal == OrdinalHead::kNone ? scores.predicted()
                                         : median_class(before_temperature(scores, temperature));
  }
  return grade_between(cut_points, expected_grade(scores.probabilities()));
}

FittedDecision fitted_decision(const at::Tensor& rows, const DecisionFit& fit) {
  FittedDecision decision;
  if (fit.temperature)
    decision.temperature = fitted_temperature(scored_classes(rows, /*temperature=*/1));
  if (!fit.cut_points && !fit.sensitivity) return decision;
  const std::vector<ScoredClass> samples = scored_classes(rows, decision.temperature);
  if (fit.cut_points) decision.cut_points = fitted_cut_points(samples);
  if (fit.sensitivity) decision.threshold = threshold_at(samples, *fit.sensitivity);
  return decision;
}

std::vector<std::pair<std::string, double>> named_numbers(const FittedDecision& decision) {
  std::vector<std::pair<std::string, double>> named;
  if (decision.temperature != 1) named.emplace_back(kTemperature, decision.temperature);
  for (std::size_t cut = 0; cut < decision.cut_points.size(); ++cut)
    named.emplace_back(std::string(kCutPoint) + std::to_string(cut), decision.cut_points[cut]);
  if (decision.threshold) named.emplace_back(kThreshold, *decision.threshold);
  return named;
}

FittedDecision decision_of(const std::map<std::string, double>& validation, std::int64_t classes) {
  FittedDecision decision;
  if (const auto found = validation.find(kTemperature); found != validation.end())
    decision.temperature = found->second;
  for (std::int64_t cut = 0; cut + 1 < classes; ++cut) {
    const auto found = validation.find(std::string(kCutPoint) + std::to_string(cut));
    if (found == validation.end()) break;
    decision.cut_points.push_back(found->second);
  }
  if (const auto found = validation.find(kThreshold); found != validation.end())
    decision.threshold = found->second;
  return decision;
}

FittedDecision decision_of(const Checkpoint& checkpoint) {
  FittedDecision decision = decision_of(checkpoint.validation, std::ssize(checkpoint.classes));
  decision.ordinal = checkpoint.ordinal;
  return decision;
}

}  // namespace stages
