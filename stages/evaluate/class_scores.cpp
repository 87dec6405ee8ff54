#include "stages/evaluate/class_scores.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include <torch/types.h>

namespace stages {

ClassScores::ClassScores(std::vector<double> logits) : logits_(std::move(logits)) {
  assert(!logits_.empty());
  largest_ = *std::ranges::max_element(logits_);
  std::vector<double> exponentials;
  exponentials.reserve(logits_.size());
  for (const double logit : logits_) exponentials.push_back(std::exp(logit - largest_));
  std::ranges::sort(exponentials);
  sum_ = std::accumulate(exponentials.begin(), exponentials.end(), 0.0);
}

std::int64_t ClassScores::predicted() const {
  return std::ranges::max_element(logits_) - logits_.begin();
}

std::int64_t ClassScores::rank(std::int64_t label) const {
  const double own = logits_[static_cast<std::size_t>(label)];
  std::int64_t before = 0;
  for (std::int64_t other = 0; other < classes(); ++other) {
    const double logit = logits_[static_cast<std::size_t>(other)];
    if (logit > own || (logit == own && other < label)) ++before;
  }
  return before;
}

std::vector<std::int64_t> ClassScores::best(std::int64_t count) const {
  std::vector<std::int64_t> order(logits_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(count, classes());
  std::partial_sort(order.begin(), end, order.end(), [&](std::int64_t a, std::int64_t b) {
    const double first = logits_[static_cast<std::size_t>(a)],
                 second = logits_[static_cast<std::size_t>(b)];
    return first > second || (first == second && a < b);
  });
  order.erase(end, order.end());
  return order;
}

double ClassScores::log_probability(std::int64_t label) const {
  return logits_[static_cast<std::size_t>(label)] - largest_ - std::log(sum_);
}

double ClassScores::probability(std::int64_t label) const {
  return std::exp(logits_[static_cast<std::size_t>(label)] - largest_) / sum_;
}

ClassScores class_scores(const at::Tensor& logits, std::int64_t row) {
  const at::Tensor values = logits[row].to(at::kDouble).contiguous();
  const double* first = values.const_data_ptr<double>();
  return ClassScores(std::vector<double>(first, first + values.numel()));
}

namespace {

constexpr std::int64_t kBestColumns = 5;

}  // namespace

std::string predictions_csv(const ClassifiedSamples& samples,
                            const std::vector<std::string>& classes) {
  const auto name_of = [&](std::int64_t label) { return classes[static_cast<std::size_t>(label)]; };
  const std::int64_t best = std::min(kBestColumns, static_cast<std::int64_t>(classes.size()));
  std::vector<std::string> fields = {"name", "label", "predicted", "correct", "probability"};
  for (std::int64_t k = 1; k <= best; ++k) fields.push_back("top_" + std::to_string(k));
  if (!samples.groups.empty()) fields.emplace_back("group");
  std::string text = csv_line(fields);
  for (std::size_t i = 0; i < samples.names.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const ClassScores scores = class_scores(samples.logits, row);
    const std::int64_t label = samples.labels[row].item<std::int64_t>(),
                       predicted = scores.predicted();
    fields = {samples.names[i], name_of(label), name_of(predicted),
              label == predicted ? "true" : "false",
              runner::csv_number(scores.probability(predicted))};
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
