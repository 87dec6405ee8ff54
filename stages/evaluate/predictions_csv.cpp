#include "stages/evaluate/predictions_csv.h"

#include <algorithm>

#include <torch/types.h>

namespace stages {
namespace {

constexpr std::int64_t kBestColumns = 5;

}  // namespace

std::string predictions_csv(const ClassifiedSamples& samples,
                            const std::vector<std::string>& classes) {
  const auto name_of = [&](std::int64_t label) { return classes[static_cast<std::size_t>(label)]; };
  const std::int64_t best = std::min(kBestColumns, static_cast<std::int64_t>(classes.size()));
  std::vector<std::string> fields = {"name",    "label",       "predicted",
                                     "correct", "probability", "label_probability"};
  for (std::int64_t k = 1; k <= best; ++k) fields.push_back("top_" + std::to_string(k));
  if (!samples.groups.empty()) fields.emplace_back("group");
  std::string text = csv_line(fields);
  for (std::size_t i = 0; i < samples.names.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const ClassScores scores = class_scores(samples.logits, row);
    const std::int64_t label = samples.labels[row].item<std::int64_t>(),
                       predicted =
                           samples.predicted.empty() ? scores.predicted() : samples.predicted[i];
    fields = {samples.names[i],
              name_of(label),
              name_of(predicted),
              label == predicted ? "true" : "false",
              runner::csv_number(scores.probability(predicted)),
              runner::csv_number(scores.probability(label))};
    for (const std::int64_t other : scores.best(best)) fields.push_back(name_of(other));
    if (!samples.groups.empty()) fields.push_back(samples.groups[i]);
    text += csv_line(fields);
  }
  return text;
}

std::string confusion_csv(const ConfusionMatrix& confusion,
                          const std::vector<std::string>& classes) {
  std::vector<std::string> fields = {"label"};
  fields.insert(fields.end(), classes.begin(), classes.end());
  std::string text = csv_line(fields);
  for (std::int64_t truth = 0; truth < confusion.classes(); ++truth) {
    fields = {classes[static_cast<std::size_t>(truth)]};
    for (std::int64_t predicted = 0; predicted < confusion.classes(); ++predicted) {
      fields.push_back(std::to_string(confusion.count(truth, predicted)));
    }
    text += csv_line(fields);
  }
  return text;
}

}  // namespace stages
