#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

namespace runner {
class ConfigReader;
}

namespace stages {

/// The factor alpha (1 - p)^gamma of a sample's cross-entropy, where p is the probability of its
/// right class (Lin and others, "Focal Loss for Dense Object Detection", 2017).
struct FocalFactor {
  double alpha = 1;
  double gamma = 0;
  bool operator==(const FocalFactor&) const = default;
};

/// The loss of a classifier, as the options `loss` and `label_smoothing` say it.
struct ClassificationLoss {
  std::optional<FocalFactor> focal;  ///< nullopt: cross-entropy
  double label_smoothing =
      0;  ///< of the cross-entropy; the focal factor looks at the right class alone

  /// "cross_entropy" or "focal".
  std::string name() const { return focal ? "focal" : "cross_entropy"; }
  bool operator==(const ClassificationLoss&) const = default;
};

/// Reads the options `loss` and `label_smoothing`.
ClassificationLoss read_classification_loss(runner::ConfigReader& reader);

/// For TrainingStep::structure(): "focal smoothed weighted", of which each word may be another or
/// none.
std::string structure_of(const ClassificationLoss& loss, bool has_class_weights);

/// The sum over samples of the loss of `logits` (n, classes) for `labels` (n) int64, a scalar with
/// graph; a focal one needs two classes. `class_weights` as of cross_entropy_sum().
at::Tensor classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                                   const ClassificationLoss& loss,
                                   const at::Tensor& class_weights = {});

/// The same for a mixture of two labels: `share` (n) of the loss of the first, the rest of that of
/// the `partners`.
at::Tensor mixed_classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                                         const at::Tensor& partners, const at::Tensor& share,
                                         const ClassificationLoss& loss);

/// The sum over samples of the loss of `logits` (n), each that of the second of two classes, for
/// `labels` (n) int64, each 0 or 1. Smoothing by e takes e / 2 from the target 1 and adds it to the
/// target 0. `class_weights` (2) float, where defined, weigh the samples of each class.
at::Tensor pair_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                         const ClassificationLoss& loss, const at::Tensor& class_weights = {});

/// The sum over samples of the cross-entropy between `logits` (n, classes) and `labels` (n) int64,
/// a scalar with graph. With label smoothing e the target is 1 - e on the label plus e / classes
/// everywhere, as in torch (Szegedy and others, "Rethinking the Inception Architecture", 2016).
/// Labels must be in range. `class_weights` (k) float, where defined, weigh the terms of each
/// class, as in torch; classes beyond them weigh 1. A sample of a class that weighs 0 has the loss
/// 0, smoothed too, unlike in torch, where a batch of such samples alone has the loss x / 0.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing, const at::Tensor& class_weights = {});

/// The same of each sample, (n).
at::Tensor cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                           double label_smoothing, const at::Tensor& class_weights = {});

/// The same sum between `logits` and a mixture of two labels: `share` (n) of the first, the rest of
/// the `partners`.
at::Tensor mixed_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                                   const at::Tensor& partners, const at::Tensor& share,
                                   double label_smoothing);

/// How many samples have their largest logit at their label, a scalar without graph.
at::Tensor correct_count(const at::Tensor& logits, const at::Tensor& labels);

/// By which of two products that hold the same numbers a covariance is penalised.
enum class CovarianceForm {
  kDirect,  ///< features x features: as the formula is written, d² numbers and four to five times
            ///< that in all
  kGram,    ///< samples x samples: n² numbers
};

/// How far features vary together: the mean of the squared covariances of two different features,
/// over the rows of `embeddings` (n, d), a scalar with graph. With C = Zᵀ Z / (n - 1) of the
/// centred rows Z it is (‖C‖² - Σ Cᵢᵢ²) / (d (d - 1)); VICReg (Bardes, Ponce and LeCun 2022,
/// arXiv:2105.04906) divides by d. Since ‖Zᵀ Z‖ = ‖Z Zᵀ‖, both forms give the same in exact
/// arithmetic, value and gradient. It depends on the whole batch. Throws std::invalid_argument for
/// fewer than two rows or two features.
at::Tensor covariance_loss(const at::Tensor& embeddings, CovarianceForm form);

}  // namespace stages
