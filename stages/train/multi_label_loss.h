#pragma once

#include <optional>
#include <string>
#include <variant>

#include <ATen/core/Tensor.h>

#include "stages/train/class_weights.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// The binary cross-entropy of each label, like torch's BCEWithLogitsLoss. With label smoothing e,
/// the targets are 1 - e / 2 and e / 2.
struct LabelEntropy {
  double label_smoothing = 0;
  ClassWeights pos_weight;  ///< factors for the loss of samples that have the label
};

/// The focal loss of each label, like torchvision's sigmoid_focal_loss (Lin et al., "Focal Loss for
/// Dense Object Detection", 2017).
struct LabelFocal {
  std::optional<double> alpha;  ///< nullopt: no weights
  double gamma = 0;
};

/// The asymmetric loss of each label, like timm's AsymmetricLossMultiLabel (Ridnik et al.,
/// "Asymmetric Loss For Multi-Label Classification", 2021).
struct AsymmetricLoss {
  double gamma_negative = 0, gamma_positive = 0;
  double clip = 0;  ///< subtracted from the probability of an absent label
};

using MultiLabelLoss = std::variant<LabelEntropy, LabelFocal, AsymmetricLoss>;

/// Reads the option `loss` of train.multi_label.
MultiLabelLoss read_multi_label_loss(runner::ConfigReader& reader);

/// Returns the kind of loss: "binary_cross_entropy", "focal" or "asymmetric".
std::string name_of(const MultiLabelLoss& loss);

/// Returns a string for TrainingStep::structure().
std::string structure_of(const MultiLabelLoss& loss);

/// Returns the factors of `weights` for the labels of `train`, (labels) float32; undefined if all
/// are 1. The balanced factor is the number of samples without a label divided by the number with
/// it, as torch's documentation suggests. Throws runner::StageError at /loss/pos_weight if the
/// weights do not match the labels, or if one of these numbers is unknown or 0.
at::Tensor positive_weights(const ClassWeights& weights, const Dataset& train);

/// Returns the loss of `logits` (n, labels) for `labels` (n, labels) of 0 and 1, any type: the sum
/// over samples of the mean over labels, a scalar with a graph. Half-precision logits are converted
/// to float32. `positive_weights` is for LabelEntropy.
at::Tensor multi_label_loss_sum(const at::Tensor& logits, const at::Tensor& labels,
                                const MultiLabelLoss& loss,
                                const at::Tensor& positive_weights = {});

}  // namespace stages
