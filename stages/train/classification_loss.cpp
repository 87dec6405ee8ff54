#include "stages/train/classification_loss.h"

#include <limits>
#include <stdexcept>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"

namespace stages {
namespace {

ClassificationLoss read_cross_entropy(runner::ConfigReader& /*reader*/) { return {}; }

ClassificationLoss read_focal(runner::ConfigReader& reader) {
  FocalFactor focal;
  reader.read("alpha", focal.alpha);
  reader.read("gamma", focal.gamma);
  return {.focal = focal};
}

/// Converts half-precision logits to float32. Autocast does this for cross-entropies, but not for
/// other functions such as the focal factor.
at::Tensor unrounded(const at::Tensor& logits) {
  return logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
}

/// Returns alpha (1 - p)^gamma, computed from log(1 - p). The logarithm keeps the gradient finite
/// for every gamma, even if p is rounded to 1.
at::Tensor focal_factor(const at::Tensor& log_of_rest, const FocalFactor& focal) {
  return (focal.gamma * log_of_rest).exp() * focal.alpha;
}

/// Returns, for each sample, the logarithm of the total probability of all classes except the true
/// one.
at::Tensor log_of_other_classes(const at::Tensor& logits, const at::Tensor& labels) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  return logits.scatter(1, labels.unsqueeze(1), kNothing).logsumexp(1) - logits.logsumexp(1);
}

/// Returns one loss per sample.
at::Tensor losses(const at::Tensor& logits, const at::Tensor& labels,
                  const ClassificationLoss& loss, const at::Tensor& class_weights) {
  const at::Tensor entropies = cross_entropies(logits, labels, loss.label_smoothing, class_weights);
  if (!loss.focal) return entropies;
  return entropies * focal_factor(log_of_other_classes(unrounded(logits), labels), *loss.focal);
}

}  // namespace

ClassificationLoss read_classification_loss(runner::ConfigReader& reader) {
  runner::ConfigReader& section = reader.section("loss");
  using Read = ClassificationLoss (*)(runner::ConfigReader&);
  const auto read = runner::choice<Read>(
      section, "kind",
      {{"cross_entropy", read_cross_entropy},
       {"focal", read_focal},
       {"coral", [](auto& options) { return ClassificationLoss{.ordinal = read_coral(options)}; }},
       {"corn", [](auto& options) { return ClassificationLoss{.ordinal = read_corn(options)}; }}});
  ClassificationLoss loss = read ? read(section) : ClassificationLoss();
  reader.read("label_smoothing", loss.label_smoothing);
  return loss;
}

std::string structure_of(const ClassificationLoss& loss, bool has_class_weights) {
  const bool is_weighted =
      has_class_weights || (loss.ordinal && !loss.ordinal->importance_weights.empty());
  return loss.name() + (loss.label_smoothing > 0 ? " smoothed" : "") +
         (is_weighted ? " weighted" : "");
}

at::Tensor classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                                   const ClassificationLoss& loss, const at::Tensor& weights) {
  if (loss.ordinal) return ordinal_loss_sum(logits, labels, loss.ordinal->head, weights);
  if (!loss.focal) return cross_entropy_sum(logits, labels, loss.label_smoothing, weights);
  return losses(logits, labels, loss, weights).sum();
}

at::Tensor mixed_classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                                         const at::Tensor& partners, const at::Tensor& share,
                                         const ClassificationLoss& loss) {
  if (!loss.focal)
    return mixed_cross_entropy_sum(logits, labels, partners, share, loss.label_smoothing);
  return at::lerp(losses(logits, partners, loss, {}), losses(logits, labels, loss, {}),
                  share.to(logits.scalar_type()))
      .sum();
}

at::Tensor pair_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                         const ClassificationLoss& loss, const at::Tensor& class_weights) {
  const at::Tensor exact = unrounded(logits);
  const at::Tensor right = labels.to(exact.scalar_type());
  const at::Tensor targets = right * (1 - loss.label_smoothing) + loss.label_smoothing / 2;
  at::Tensor each = at::binary_cross_entropy_with_logits(exact, targets, /*weight=*/{},
                                                         /*pos_weight=*/{}, at::Reduction::None);
  // 1 - p is the logistic function of the true class's negated logit.
  if (loss.focal) each = each * focal_factor(at::log_sigmoid(exact * (1 - 2 * right)), *loss.focal);
  if (class_weights.defined())
    each = each * class_weights.to(exact.options().requires_grad(false)).index_select(0, labels);
  return each.sum();
}

namespace {

constexpr std::int64_t kIgnored = -100;  // label of samples with loss 0

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                         const at::Tensor& class_weights, at::Reduction::Reduction reduction) {
  std::optional<at::Tensor> weights;
  at::Tensor counted = labels;
  if (class_weights.defined()) {
    const std::int64_t beyond = logits.size(1) - class_weights.size(0);
    weights =
        (beyond > 0 ? torch::cat({class_weights, class_weights.new_ones({beyond})}) : class_weights)
            .to(logits.options().requires_grad(false));
    // With label smoothing, a sample of weight 0 would still be pulled toward the other classes, by
    // a loss that is not divided by any weight.
    if (label_smoothing > 0)
      counted = labels.masked_fill(weights->index_select(0, labels).eq(0), kIgnored);
  }
  return at::cross_entropy_loss(logits, counted, weights, reduction, kIgnored, label_smoothing);
}

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing, const at::Tensor& class_weights) {
  return cross_entropy(logits, labels, label_smoothing, class_weights, at::Reduction::Sum);
}

at::Tensor cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                           double label_smoothing, const at::Tensor& class_weights) {
  return cross_entropy(logits, labels, label_smoothing, class_weights, at::Reduction::None);
}

at::Tensor mixed_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                                   const at::Tensor& partners, const at::Tensor& share,
                                   double label_smoothing) {
  const auto each = [&](const at::Tensor& targets) {
    return cross_entropies(logits, targets, label_smoothing);
  };
  return at::lerp(each(partners), each(labels), share.to(logits.scalar_type())).sum();
}

at::Tensor correct_count(const at::Tensor& logits, const at::Tensor& labels, OrdinalHead head) {
  return predicted_ranks(logits, head).eq(labels).sum();
}

at::Tensor covariance_loss(const at::Tensor& embeddings, CovarianceForm form) {
  if (embeddings.dim() != 2 || embeddings.size(0) < 2 || embeddings.size(1) < 2) {
    throw std::invalid_argument("a covariance needs two rows and two features");
  }
  const auto pairs =
      static_cast<double>(embeddings.size(1)) * static_cast<double>(embeddings.size(1) - 1);
  const auto degrees = static_cast<double>(embeddings.size(0) - 1);
  const at::Tensor centered = embeddings - embeddings.mean(0, /*keepdim=*/true);
  const bool is_direct = form == CovarianceForm::kDirect;
  const at::Tensor product =
      (is_direct ? centered.t().matmul(centered) : centered.matmul(centered.t())) / degrees;
  const at::Tensor variances = is_direct ? product.diagonal() : centered.square().sum(0) / degrees;
  return (product.square().sum() - variances.square().sum()) / pairs;
}

}  // namespace stages
