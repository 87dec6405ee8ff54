#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/evaluate/confusion_matrix.h"

namespace stages {

/// Precision, recall and F1 of one class, or their mean over classes.
struct ClassQuality {
  double precision = 0, recall = 0, f1 = 0;
};

/// Of one class, as scikit-learn has it with zero_division=0.
ClassQuality class_quality(const ConfusionMatrix& confusion, std::int64_t label);

/// A range that holds the true share with some confidence.
struct Interval {
  double low = 0, high = 0;
};

/// The 95 % interval of a share seen as `successes` of `trials` (Wilson 1927, doi:10.1080/01621459.1927.10502953).
Interval wilson_interval(std::int64_t successes, std::int64_t trials);

/// How good a classifier's predictions are, defined as scikit-learn does with zero_division=0: a class never predicted
/// has precision 0, a class without samples recall 0, and both have F1 0 and count in the macro means.
struct ClassificationMetrics {
  ConfusionMatrix confusion{0};
  std::vector<ClassQuality> of_class;  ///< by label
  ClassQuality macro;                  ///< mean over all classes that may occur
  ClassQuality weighted;               ///< mean over samples of their class's
  double top1 = 0;                     ///< share of samples whose class has the largest logit
  std::vector<std::pair<std::int64_t, double>>
      top_k;  ///< k, and the share of samples among whose k best is their class
  Interval top1_interval;
  double mean_per_class = 0;  ///< mean recall of the classes that have samples ("balanced accuracy")
  double log_loss = 0;        ///< mean of -log of the true class's softmax share, in nats
  double chance = 0;          ///< top1 of guessing evenly among the classes
};

/// Of logits (n, classes), any floating type, finite, and labels (n) int64 in [0, classes), both on the CPU; n > 0.
/// Ties go to the lower class. A k of `top_k` that is not below the number of classes is left out: it is 1 by
/// definition. Classes that are not `present` cannot occur and are left out of the macro means; without it all are.
/// `predicted`, where it is not empty, says what a sample was taken for in place of its largest logit.
ClassificationMetrics classification_metrics(const at::Tensor& logits, const at::Tensor& labels,
                                             const std::vector<std::int64_t>& top_k,
                                             const std::vector<bool>& present = {},
                                             const std::vector<std::int64_t>& predicted = {});

/// The numbers of which a run has one, by name, always in this order: top1, top<k>…, mean_per_class, macro_precision,
/// macro_recall, macro_f1, weighted_precision, weighted_recall, weighted_f1, log_loss, top1_low, top1_high, chance,
/// samples.
std::vector<std::pair<std::string, double>> summary(const ClassificationMetrics& metrics);

}  // namespace stages
