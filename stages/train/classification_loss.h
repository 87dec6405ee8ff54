#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

namespace runner {
class ConfigReader;
}

namespace stages {

/// The factor alpha (1 - p)^gamma of a sample's cross-entropy, where p is the probability of its right class (Lin and
/// others, "Focal Loss for Dense Object Detection", 2017).
struct FocalFactor {
  double alpha = 1;
  double gamma = 0;
  bool operator==(const FocalFactor&) const = default;
};

/// The loss of a classifier, as the options `loss` and `label_smoothing` say it.
struct ClassificationLoss {
  std::optional<FocalFactor> focal;  ///< nullopt: cross-entropy
  double label_smoothing = 0;        ///< of the cross-entropy; the focal factor looks at the right class alone

  /// "cross_entropy" or "focal".
  std::string name() const { return focal ? "focal" : "cross_entropy"; }
  bool operator==(const ClassificationLoss&) const = default;
};

/// Reads the options `loss` and `label_smoothing`.
ClassificationLoss read_classification_loss(runner::ConfigReader& reader);

/// For TrainingStep::structure(): "focal smoothed weighted", of which each word may be another or none.
std::string structure_of(const ClassificationLoss& loss, bool has_class_weights);

/// The sum over samples of the loss of `logits` (n, classes) for `labels` (n) int64, a scalar with graph; a focal one
/// needs two classes. `class_weights` as of cross_entropy_sum().
at::Tensor classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels, const ClassificationLoss& loss,
                                   const at::Tensor& class_weights = {});

/// The same for a mixture of two labels: `share` (n) of the loss of the first, the rest of that of the `partners`.
at::Tensor mixed_classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& partners,
                                         const at::Tensor& share, const ClassificationLoss& loss);

/// The sum over samples of the loss of `logits` (n), each that of the second of two classes, for `labels` (n) int64,
/// each 0 or 1. Smoothing by e takes e / 2 from the target 1 and adds it to the target 0. `class_weights` (2) float,
/// where defined, weigh the samples of each class.
at::Tensor pair_loss_sum(const at::Tensor& logits, const at::Tensor& labels, const ClassificationLoss& loss,
                         const at::Tensor& class_weights = {});

}  // namespace stages
