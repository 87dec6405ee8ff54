#include "stages/train/loss.h"

#include <stdexcept>

#include <torch/types.h>

namespace stages {
namespace {

constexpr std::int64_t kIgnored = -100;  // a label whose sample has the loss 0

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                         const at::Tensor& class_weights, at::Reduction::Reduction reduction) {
  std::optional<at::Tensor> weights;
  at::Tensor counted = labels;
  if (class_weights.defined()) {
    const std::int64_t beyond = logits.size(1) - class_weights.size(0);
    weights = (beyond > 0 ? torch::cat({class_weights, class_weights.new_ones({beyond})}) : class_weights)
                  .to(logits.options().requires_grad(false));
    // Smoothed, it would still be drawn towards the other classes, by a loss that no weight divides.
    if (label_smoothing > 0) counted = labels.masked_fill(weights->index_select(0, labels).eq(0), kIgnored);
  }
  return at::cross_entropy_loss(logits, counted, weights, reduction, kIgnored, label_smoothing);
}

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                             const at::Tensor& class_weights) {
  return cross_entropy(logits, labels, label_smoothing, class_weights, at::Reduction::Sum);
}

at::Tensor cross_entropies(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                           const at::Tensor& class_weights) {
  return cross_entropy(logits, labels, label_smoothing, class_weights, at::Reduction::None);
}

at::Tensor mixed_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& partners,
                                   const at::Tensor& share, double label_smoothing) {
  const auto each = [&](const at::Tensor& targets) { return cross_entropies(logits, targets, label_smoothing); };
  return at::lerp(each(partners), each(labels), share.to(logits.scalar_type())).sum();
}

at::Tensor correct_count(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.detach().argmax(1).eq(labels).sum();
}

at::Tensor covariance_loss(const at::Tensor& embeddings, CovarianceForm form) {
  if (embeddings.dim() != 2 || embeddings.size(0) < 2 || embeddings.size(1) < 2) {
    throw std::invalid_argument("a covariance needs two rows and two features");
  }
  const auto pairs = static_cast<double>(embeddings.size(1)) * static_cast<double>(embeddings.size(1) - 1);
  const auto degrees = static_cast<double>(embeddings.size(0) - 1);
  const at::Tensor centred = embeddings - embeddings.mean(0, /*keepdim=*/true);
  const bool is_direct = form == CovarianceForm::kDirect;
  const at::Tensor product = (is_direct ? centred.t().matmul(centred) : centred.matmul(centred.t())) / degrees;
  const at::Tensor variances = is_direct ? product.diagonal() : centred.square().sum(0) / degrees;
  return (product.square().sum() - variances.square().sum()) / pairs;
}

}  // namespace stages
