#include "stages/artifact/label_thresholds.h"

#include <torch/types.h>

#include "stages/artifact/label_ranking.h"

namespace stages {
namespace {

constexpr std::string_view kPrefix = "threshold/";

/// Returns the samples of one label, scored by logit or by probability.
std::vector<ScoredLabel> scored(const at::Tensor& rows, std::int64_t label, bool by_probability) {
  const std::int64_t width = rows.size(1);
  const auto* const numbers = rows.const_data_ptr<float>();
  std::vector<ScoredLabel> samples;
  samples.reserve(static_cast<std::size_t>(rows.size(0)));
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const auto logit = static_cast<double>(numbers[row * width + label]);
    samples.push_back({by_probability ? label_probability(logit) : logit,
                       numbers[row * width + width / 2 + label] > 0});
  }
  return samples;
}

}  // namespace

std::optional<double> mean_average_precision(const at::Tensor& rows) {
  const at::Tensor whole = rows.contiguous();
  double sum = 0, count = 0;
  for (std::int64_t label = 0; label < rows.size(1) / 2; ++label) {
    std::vector<ScoredLabel> samples = scored(whole, label, /*by_probability=*/false);
    const auto precision = average_precision(samples);
    if (!precision) continue;
    sum += *precision;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::vector<double> chosen_thresholds(const at::Tensor& rows) {
  const at::Tensor whole = rows.contiguous();
  std::vector<double> thresholds;
  for (std::int64_t label = 0; label < rows.size(1) / 2; ++label) {
    std::vector<ScoredLabel> samples = scored(whole, label, /*by_probability=*/true);
    thresholds.push_back(best_threshold(samples).value_or(kUsualThreshold));
  }
  return thresholds;
}

std::vector<std::pair<std::string, double>> named_thresholds(
    const std::vector<double>& thresholds) {
  std::vector<std::pair<std::string, double>> named;
  for (std::size_t label = 0; label < thresholds.size(); ++label)
    named.emplace_back(std::string(kPrefix) + std::to_string(label), thresholds[label]);
  return named;
}

std::vector<double> thresholds_of(const std::map<std::string, double>& validation,
                                  std::int64_t labels) {
  std::vector<double> thresholds;
  for (std::int64_t label = 0; label < labels; ++label) {
    const auto found = validation.find(std::string(kPrefix) + std::to_string(label));
    if (found == validation.end()) return {};
    thresholds.push_back(found->second);
  }
  return thresholds;
}

std::vector<double> thresholds_or_usual(const std::map<std::string, double>& validation,
                                        std::int64_t labels) {
  std::vector<double> thresholds = thresholds_of(validation, labels);
  if (thresholds.empty()) thresholds.assign(static_cast<std::size_t>(labels), kUsualThreshold);
  return thresholds;
}

}  // namespace stages
