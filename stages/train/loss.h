#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

/// The sum over samples of the cross-entropy between `logits` (n, classes) and `labels` (n) int64, a scalar with graph.
/// With label smoothing e the target is 1 - e on the label plus e / classes everywhere, as in torch (Szegedy and
/// others, "Rethinking the Inception Architecture", 2016). Labels must be in range. `class_weights` (k) float, where
/// defined, weigh the terms of each class, as in torch; classes beyond them weigh 1. A sample of a class that weighs 0
/// has the loss 0, smoothed too, unlike in torch, where a batch of such samples alone has the loss x / 0.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                             const at::Tensor& class_weights = {});

/// The same of each sample, (n).
at::Tensor cross_entropies(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                           const at::Tensor& class_weights = {});

/// The same sum between `logits` and a mixture of two labels: `share` (n) of the first, the rest of the `partners`.
at::Tensor mixed_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& partners,
                                   const at::Tensor& share, double label_smoothing);

/// How many samples have their largest logit at their label, a scalar without graph.
at::Tensor correct_count(const at::Tensor& logits, const at::Tensor& labels);

/// By which of two products that hold the same numbers a covariance is penalised.
enum class CovarianceForm {
  kDirect,  ///< features x features: as the formula is written, d² numbers and four to five times that in all
  kGram,    ///< samples x samples: n² numbers
};

/// How far features vary together: the mean of the squared covariances of two different features, over the rows of
/// `embeddings` (n, d), a scalar with graph. With C = Zᵀ Z / (n - 1) of the centred rows Z it is
/// (‖C‖² - Σ Cᵢᵢ²) / (d (d - 1)); VICReg (Bardes, Ponce and LeCun 2022, arXiv:2105.04906) divides by d. Since
/// ‖Zᵀ Z‖ = ‖Z Zᵀ‖, both forms give the same in exact arithmetic, value and gradient. It depends on the whole batch.
/// Throws std::invalid_argument for fewer than two rows or two features.
at::Tensor covariance_loss(const at::Tensor& embeddings, CovarianceForm form);

}  // namespace stages
