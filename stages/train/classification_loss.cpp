#include "stages/train/classification_loss.h"

#include <limits>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "stages/train/loss.h"

namespace stages {
namespace {

std::optional<FocalFactor> read_cross_entropy(runner::ConfigReader& /*reader*/) { return std::nullopt; }

std::optional<FocalFactor> read_focal(runner::ConfigReader& reader) {
  FocalFactor focal;
  reader.read("alpha", focal.alpha);
  reader.read("gamma", focal.gamma);
  return focal;
}

/// Of halves, autocast computes cross-entropies in float32, and what else is made of them here in halves.
at::Tensor unrounded(const at::Tensor& logits) {
  return logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
}

/// alpha (1 - p)^gamma of the logarithm of 1 - p. By way of the logarithm its gradient is finite for every gamma, where
/// p is rounded to 1 too.
at::Tensor focal_factor(const at::Tensor& log_of_rest, const FocalFactor& focal) {
  return (focal.gamma * log_of_rest).exp() * focal.alpha;
}

/// Of each sample the logarithm of the share of all classes but the right one.
at::Tensor log_of_other_classes(const at::Tensor& logits, const at::Tensor& labels) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  return logits.scatter(1, labels.unsqueeze(1), kNothing).logsumexp(1) - logits.logsumexp(1);
}

/// Of each sample.
at::Tensor losses(const at::Tensor& logits, const at::Tensor& labels, const ClassificationLoss& loss,
                  const at::Tensor& class_weights) {
  const at::Tensor entropies = cross_entropies(logits, labels, loss.label_smoothing, class_weights);
  if (!loss.focal) return entropies;
  return entropies * focal_factor(log_of_other_classes(unrounded(logits), labels), *loss.focal);
}

}  // namespace

ClassificationLoss read_classification_loss(runner::ConfigReader& reader) {
  ClassificationLoss loss;
  reader.read("label_smoothing", loss.label_smoothing);
  runner::ConfigReader& section = reader.section("loss");
  using Read = std::optional<FocalFactor> (*)(runner::ConfigReader&);
  const auto read =
      runner::choice<Read>(section, "kind", {{"cross_entropy", read_cross_entropy}, {"focal", read_focal}});
  if (read) loss.focal = read(section);
  return loss;
}

std::string structure_of(const ClassificationLoss& loss, bool has_class_weights) {
  return loss.name() + (loss.label_smoothing > 0 ? " smoothed" : "") + (has_class_weights ? " weighted" : "");
}

at::Tensor classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels, const ClassificationLoss& loss,
                                   const at::Tensor& class_weights) {
  if (!loss.focal) return cross_entropy_sum(logits, labels, loss.label_smoothing, class_weights);
  return losses(logits, labels, loss, class_weights).sum();
}

at::Tensor mixed_classification_loss_sum(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& partners,
                                         const at::Tensor& share, const ClassificationLoss& loss) {
  if (!loss.focal) return mixed_cross_entropy_sum(logits, labels, partners, share, loss.label_smoothing);
  return at::lerp(losses(logits, partners, loss, {}), losses(logits, labels, loss, {}), share.to(logits.scalar_type()))
      .sum();
}

at::Tensor pair_loss_sum(const at::Tensor& logits, const at::Tensor& labels, const ClassificationLoss& loss,
                         const at::Tensor& class_weights) {
  const at::Tensor exact = unrounded(logits);
  const at::Tensor right = labels.to(exact.scalar_type());
  const at::Tensor targets = right * (1 - loss.label_smoothing) + loss.label_smoothing / 2;
  at::Tensor each =
      at::binary_cross_entropy_with_logits(exact, targets, /*weight=*/{}, /*pos_weight=*/{}, at::Reduction::None);
  // 1 - p is the logistic function of the right class's logit, negated.
  if (loss.focal) each = each * focal_factor(at::log_sigmoid(exact * (1 - 2 * right)), *loss.focal);
  if (class_weights.defined())
    each = each * class_weights.to(exact.options().requires_grad(false)).index_select(0, labels);
  return each.sum();
}

}  // namespace stages
