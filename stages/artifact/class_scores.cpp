#include "stages/artifact/class_scores.h"

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

std::vector<double> ClassScores::probabilities() const {
  std::vector<double> shares;
  shares.reserve(logits_.size());
  for (std::int64_t label = 0; label < classes(); ++label) shares.push_back(probability(label));
  return shares;
}

}  // namespace stages
