#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "stages/train/ordinal_loss.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// The factor alpha (1 - p)^gamma of a sample's cross-entropy, where p is the predicted probability
/// of its true class (Lin et al., "Focal Loss for Dense Object Detection", 2017).
struct FocalFactor {
  double alpha = 1;
  double gamma = 0;
  bool operator==(const FocalFactor&) const = default;
};

/// A classifier's loss, as configured by the options `loss` and `label_smoothing`.
struct ClassificationLoss {
  std::optional<FocalFactor> focal;  ///< nullopt: cross-entropy
  double label_smoothing = 0;  ///< for the cross-entropy; the focal factor uses only the true class
  std::optional<OrdinalLoss> ordinal = {};  ///< set: replaces the cross-entropy

  /// The head that the loss trains.
  OrdinalHead head() const { return ordinal ? ordinal->head : OrdinalHead::kNone; }
  /// Returns "cross_entropy", "focal", "coral" or "corn".
  std::string name() const {
    if (ordinal) return std::string(name_of(ordinal->head));
    return focal ? "focal" : "cross_entropy";
  }
  bool operator==(const ClassificationLoss&) const = default;
};

/// Reads the options `loss` and `label_smoothing`.
ClassificationLoss read_classification_loss(runner::ConfigReader& reader);

/// Returns a string for TrainingStep::structure(): the loss's name, plus "smoothed" and "weighted"
/// where they apply.
std::string structure_of(const ClassificationLoss& loss, bool has_class_weights);

/// Returns the loss of `logits` (n, classes) for `labels` (n) int64, summed over samples: a scalar
/// with a graph. Focal loss requires at least two classes. `weights` are those of the classes, as
/// in cross_entropy_sum(). An ordinal loss takes the outputs of its head, and their weights as in
/// ordinal_loss_sum().
at::Tensor classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                                   const ClassificationLoss& loss, const at::Tensor& weights = {});

/// Returns the loss of a mixture of two labels, summed over samples: `share` (n) weights the loss
/// for `labels`, and 1 - share the loss for `partners`.
at::Tensor mixed_classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                                         const at::Tensor& partners, const at::Tensor& share,
                                         const ClassificationLoss& loss);

/// Returns the binary loss, summed over samples. `logits` (n) are for the second of two classes;
/// `labels` (n) int64 are 0 or 1. Label smoothing of e subtracts e / 2 from target 1 and adds it to
/// target 0. `class_weights` (2) float, if defined, weight the samples of each class.
at::Tensor pair_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                         const ClassificationLoss& loss, const at::Tensor& class_weights = {});

/// Returns the cross-entropy between `logits` (n, classes) and `labels` (n) int64, summed over
/// samples: a scalar with a graph. With label smoothing e, the target is 1 - e on the label plus e
/// / classes everywhere, as in torch (Szegedy et al., "Rethinking the Inception Architecture",
/// 2016). Labels must be in range. `class_weights` (k) float, if defined, weight the terms of each
/// class, as in torch; classes from k on have weight 1. A sample from a class with weight 0 has
/// loss 0, even with label smoothing. In torch, the loss of a batch with only such samples is x /
/// 0.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing, const at::Tensor& class_weights = {});

/// Returns the cross-entropy of each sample, of shape (n).
at::Tensor cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                           double label_smoothing, const at::Tensor& class_weights = {});

/// Returns the summed cross-entropy between `logits` and a mixture of two labels: `share` (n) of
/// `labels`, and 1 - share of `partners`.
at::Tensor mixed_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                                   const at::Tensor& partners, const at::Tensor& share,
                                   double label_smoothing);

/// Returns the number of samples for which the label has the largest logit or, for an ordinal head,
/// equals predicted_ranks(): a scalar without an autograd graph.
at::Tensor correct_count(const at::Tensor& logits, const at::Tensor& labels,
                         OrdinalHead head = OrdinalHead::kNone);

/// Which matrix product the covariance penalty uses; both give the same result.
enum class CovarianceForm {
  kDirect,  ///< features x features, as in the formula: d² values, and four to five times that in
            ///< total
  kGram,    ///< samples x samples: n² values
};

/// Penalizes features that vary together: the mean squared covariance of two different features
/// over the rows of `embeddings` (n, d). Returns a scalar with a graph. With C = Zᵀ Z / (n - 1) of
/// the centered rows Z, it is (‖C‖² - Σ Cᵢᵢ²) / (d (d - 1)); VICReg (Bardes, Ponce and LeCun 2022,
/// arXiv:2105.04906) divides by d. Since ‖Zᵀ Z‖ = ‖Z Zᵀ‖, both forms have the same value and
/// gradient in exact arithmetic. The loss depends on the whole batch. Throws std::invalid_argument
/// for fewer than two rows or two features.
at::Tensor covariance_loss(const at::Tensor& embeddings, CovarianceForm form);

}  // namespace stages
