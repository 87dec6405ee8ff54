#include "stages/train/multi_label_loss.h"

#include <map>
#include <vector>

#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"
#include "stages/artifact/label_sets.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

MultiLabelLoss read_label_entropy(runner::ConfigReader& reader) {
  LabelEntropy loss;
  reader.read("label_smoothing", loss.label_smoothing);
  loss.pos_weight = read_class_weights(reader, "pos_weight");
  return loss;
}

MultiLabelLoss read_label_focal(runner::ConfigReader& reader) {
  LabelFocal loss;
  reader.read("alpha", loss.alpha);
  reader.read("gamma", loss.gamma);
  return loss;
}

MultiLabelLoss read_asymmetric(runner::ConfigReader& reader) {
  AsymmetricLoss loss;
  reader.read("gamma_negative", loss.gamma_negative);
  reader.read("gamma_positive", loss.gamma_positive);
  reader.read("clip", loss.clip);
  return loss;
}

[[noreturn]] void refuse_positive_weights(const std::string& message, const std::string& help) {
  throw runner::StageError(runner::ErrorCode::kOptionConflict, message)
      .at("/loss/pos_weight")
      .with_help(help);
}

std::vector<double> balanced_positives(const Dataset& train,
                                       const std::vector<std::string>& labels) {
  const std::vector<std::int64_t> counts = label_counts(train);
  if (counts.empty()) {
    refuse_positive_weights(
        "pos_weight: balanced needs the number of samples with each label, but the training data "
        "does not provide it",
        "write a number for each label");
  }
  const std::int64_t samples = train.describe().size;
  std::vector<double> weights;
  for (std::size_t label = 0; label < labels.size(); ++label) {
    if (counts[label] == 0 || counts[label] == samples) {
      refuse_positive_weights("pos_weight: balanced finds " +
                                  std::string(counts[label] == 0 ? "no training sample with"
                                                                 : "no training sample without") +
                                  " the label '" + labels[label] + "'",
                              "write a number for each label, or leave that label out");
    }
    weights.push_back(static_cast<double>(samples - counts[label]) /
                      static_cast<double>(counts[label]));
  }
  return weights;
}

std::vector<double> named_positives(const std::map<std::string, double>& named,
                                    const std::vector<std::string>& labels) {
  std::vector<double> weights(labels.size(), 1);
  for (const auto& [name, weight] : named) {
    const auto place = place_of_name(name, labels);
    if (!place) {
      refuse_positive_weights(
          "pos_weight names a label that the training data lacks: '" + name + "'",
          runner::did_you_mean(name, labels));
    }
    weights[*place] = weight;
  }
  return weights;
}

at::Tensor entropies(const at::Tensor& logits, const at::Tensor& targets, const LabelEntropy& loss,
                     const at::Tensor& positive_weights) {
  const at::Tensor smoothed = loss.label_smoothing > 0
                                  ? targets * (1 - loss.label_smoothing) + loss.label_smoothing / 2
                                  : targets;
  std::optional<at::Tensor> weights;
  if (positive_weights.defined())
    weights = positive_weights.to(logits.options().requires_grad(false));
  return at::binary_cross_entropy_with_logits(logits, smoothed, /*weight=*/{}, weights,
                                              at::Reduction::None);
}

at::Tensor focal_losses(const at::Tensor& logits, const at::Tensor& targets,
                        const LabelFocal& loss) {
  at::Tensor each = at::binary_cross_entropy_with_logits(logits, targets, /*weight=*/{},
                                                         /*pos_weight=*/{}, at::Reduction::None);
  // The logarithm of 1 - p keeps the gradient finite for every gamma, even if p is rounded to 1.
  each = each * (loss.gamma * at::log_sigmoid(logits * (1 - 2 * targets))).exp();
  if (!loss.alpha) return each;
  return each * (targets * (2 * *loss.alpha - 1) + (1 - *loss.alpha));
}

at::Tensor asymmetric_losses(const at::Tensor& logits, const at::Tensor& targets,
                             const AsymmetricLoss& loss) {
  constexpr double kLeast = 1e-8;  // as in timm; keeps logarithms and gradients finite
  const at::Tensor present = logits.sigmoid();
  const at::Tensor absent = (1 - present + loss.clip).clamp_max(1);
  const at::Tensor entropies =
      targets * present.clamp_min(kLeast).log() + (1 - targets) * absent.clamp_min(kLeast).log();
  const at::Tensor missed = 1 - (present * targets + absent * (1 - targets));
  const at::Tensor gamma =
      targets * (loss.gamma_positive - loss.gamma_negative) + loss.gamma_negative;
  return -entropies * missed.clamp_min(kLeast).pow(gamma);
}

}  // namespace

MultiLabelLoss read_multi_label_loss(runner::ConfigReader& reader) {
  runner::ConfigReader& section = reader.section("loss");
  using Read = MultiLabelLoss (*)(runner::ConfigReader&);
  const auto read = runner::choice<Read>(section, "kind",
                                         {{"binary_cross_entropy", read_label_entropy},
                                          {"focal", read_label_focal},
                                          {"asymmetric", read_asymmetric}});
  return read ? read(section) : MultiLabelLoss();
}

std::string name_of(const MultiLabelLoss& loss) {
  if (std::holds_alternative<LabelEntropy>(loss)) return "binary_cross_entropy";
  return std::holds_alternative<LabelFocal>(loss) ? "focal" : "asymmetric";
}

std::string structure_of(const MultiLabelLoss& loss) {
  std::string text = name_of(loss);
  if (const auto* entropy = std::get_if<LabelEntropy>(&loss)) {
    if (entropy->label_smoothing > 0) text += " smoothed";
    if (!std::holds_alternative<std::monostate>(entropy->pos_weight)) text += " weighted";
  }
  if (const auto* focal = std::get_if<LabelFocal>(&loss); focal && focal->alpha)
    text += " weighted";
  return text;
}

at::Tensor positive_weights(const ClassWeights& weights, const Dataset& train) {
  const std::vector<std::string> labels = train.describe().classes;
  if (std::holds_alternative<std::monostate>(weights)) return {};
  std::vector<double> numbers;
  if (const auto* listed = std::get_if<std::vector<double>>(&weights)) numbers = *listed;
  else if (const auto* named = std::get_if<std::map<std::string, double>>(&weights))
    numbers = named_positives(*named, labels);
  else numbers = balanced_positives(train, labels);
  if (numbers.size() != labels.size()) {
    refuse_positive_weights("pos_weight lists " + std::to_string(numbers.size()) + " numbers for " +
                                std::to_string(labels.size()) + " labels",
                            "write one for each label, in their order, or a mapping from labels "
                            "to numbers");
  }
  return torch::tensor(numbers, torch::kFloat);
}

at::Tensor multi_label_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                                const MultiLabelLoss& loss, const at::Tensor& positive_weights) {
  const at::Tensor exact = logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
  const at::Tensor targets = labels.to(exact.scalar_type());
  at::Tensor each;
  if (const auto* entropy = std::get_if<LabelEntropy>(&loss))
    each = entropies(exact, targets, *entropy, positive_weights);
  else if (const auto* focal = std::get_if<LabelFocal>(&loss))
    each = focal_losses(exact, targets, *focal);
  else each = asymmetric_losses(exact, targets, std::get<AsymmetricLoss>(loss));
  return each.mean(1).sum();
}

}  // namespace stages
