#include "stages/evaluate/suspected_labels.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include <torch/types.h>

#include "runner/shared/text/csv.h"
#include "stages/artifact/class_scores.h"

namespace stages {
namespace {

/// Returns the mean probability of each class over the samples with its label; 2, which no
/// probability reaches, for classes without samples.
std::vector<double> class_thresholds(const at::Tensor& logits,
                                     const std::vector<std::int64_t>& labels) {
  constexpr double kOutOfReach = 2;
  const auto classes = static_cast<std::size_t>(logits.size(1));
  std::vector<double> sums(classes), counts(classes);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto label = static_cast<std::size_t>(labels[row]);
    sums[label] += class_scores(logits, static_cast<std::int64_t>(row)).probability(labels[row]);
    ++counts[label];
  }
  for (std::size_t label = 0; label < classes; ++label)
    sums[label] = counts[label] > 0 ? sums[label] / counts[label] : kOutOfReach;
  return sums;
}

}  // namespace

std::vector<SuspectedLabel> suspected_labels(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor whole = labels.contiguous();
  const auto* const first = whole.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> truths(first, first + whole.size(0));
  const std::vector<double> thresholds = class_thresholds(logits, truths);
  std::vector<SuspectedLabel> suspected;
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    const ClassScores scores = class_scores(logits, row);
    const std::int64_t label = truths[static_cast<std::size_t>(row)];
    if (scores.predicted() == label) continue;
    const std::vector<double> shares = scores.probabilities();
    std::int64_t confident = -1;
    for (std::size_t other = 0; other < shares.size(); ++other) {
      if (shares[other] < thresholds[other]) continue;
      if (confident < 0 || shares[other] > shares[static_cast<std::size_t>(confident)])
        confident = static_cast<std::int64_t>(other);
    }
    if (confident < 0 || confident == label) continue;
    suspected.push_back({row, label, confident, shares[static_cast<std::size_t>(label)],
                         shares[static_cast<std::size_t>(confident)]});
  }
  std::ranges::stable_sort(suspected, std::greater{}, [](const SuspectedLabel& one) {
    return one.suggested_probability - one.label_probability;
  });
  return suspected;
}

std::string suspected_labels_csv(const std::vector<SuspectedLabel>& suspected,
                                 const ClassifiedSamples& samples,
                                 const std::vector<std::string>& classes) {
  std::string text = runner::csv_line(
      {"name", "label", "suggested", "label_probability", "suggested_probability"});
  for (const SuspectedLabel& one : suspected) {
    text += runner::csv_line({samples.names[static_cast<std::size_t>(one.row)],
                              classes[static_cast<std::size_t>(one.label)],
                              classes[static_cast<std::size_t>(one.suggested)],
                              runner::csv_number(one.label_probability),
                              runner::csv_number(one.suggested_probability)});
  }
  return text;
}

}  // namespace stages
