#include "stages/evaluate/label_examples.h"

#include <algorithm>
#include <cmath>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/evaluate/example_images.h"
#include "stages/evaluate/multi_label_metrics.h"

namespace stages {
namespace {

/// Returns the mean binary cross-entropy of a sample's labels, in nats.
double label_loss(const LabeledSamples& tested, std::size_t row) {
  const std::size_t width = tested.labels.size();
  const auto* const logits = tested.samples.logits.const_data_ptr<float>() + row * width;
  const auto* const marks = tested.samples.labels.const_data_ptr<std::uint8_t>() + row * width;
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t label = 0; label < width; ++label) {
    if (!tested.present.empty() && !tested.present[label]) continue;
    const auto logit = static_cast<double>(logits[label]);
    // Stable for large logits: -log(sigmoid(z)) = max(-z, 0) + log(1 + exp(-|z|)).
    sum +=
        std::max(marks[label] != 0 ? -logit : logit, 0.0) + std::log1p(std::exp(-std::abs(logit)));
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

}  // namespace

NamedLabels named_labels(const LabeledSamples& tested, std::size_t row) {
  const std::size_t width = tested.labels.size();
  const auto* const logits = tested.samples.logits.const_data_ptr<float>() + row * width;
  const auto* const marks = tested.samples.labels.const_data_ptr<std::uint8_t>() + row * width;
  NamedLabels named;
  for (std::size_t label = 0; label < width; ++label) {
    if (!tested.present.empty() && !tested.present[label]) continue;
    if (marks[label] != 0) named.labels.push_back(tested.labels[label]);
    if (is_predicted(static_cast<double>(logits[label]), tested.thresholds[label]))
      named.predicted.push_back(tested.labels[label]);
  }
  return named;
}

void write_label_examples(const LabeledSamples& tested, const Dataset& dataset, std::int64_t count,
                          const std::filesystem::path& folder) {
  if (count == 0) return;
  std::vector<double> losses;
  for (std::size_t row = 0; row < tested.samples.names.size(); ++row)
    losses.push_back(label_loss(tested, row));
  std::vector<ExampleImage> examples;
  const auto add = [&](const std::string& group, const std::vector<std::size_t>& rows) {
    for (const std::size_t row : rows) {
      const NamedLabels named = named_labels(tested, row);
      examples.push_back(
          {group,
           tested.samples.names[row],
           {{"labels", named.labels}, {"predicted", named.predicted}, {"loss", losses[row]}}});
    }
  };
  const Extremes chosen_rows = extremes(losses, count);
  add("samples with the largest loss", chosen_rows.largest);
  add("samples with the smallest loss", chosen_rows.smallest);
  write_examples(examples, dataset, folder);
}

}  // namespace stages
