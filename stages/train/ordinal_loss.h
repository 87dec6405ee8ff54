#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/dataset.h"
#include "stages/artifact/ordinal_head.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// A loss for ordered classes, as configured by `loss: {kind: coral}` or `{kind: corn}`.
struct OrdinalLoss {
  OrdinalHead head = OrdinalHead::kCoral;
  /// The weight of each output in CORAL's loss, lowest class first; empty: all weights are 1.
  std::vector<double> importance_weights;
  /// The classes in ascending order; nullopt: determined from the data or from the class names.
  std::optional<std::vector<std::string>> order;
  bool operator==(const OrdinalLoss&) const = default;
};

/// Read the options of coral and corn.
OrdinalLoss read_coral(runner::ConfigReader& reader);
OrdinalLoss read_corn(runner::ConfigReader& reader);

/// Throws runner::StageError, located below /loss, if the classes of the training data are not
/// known to ascend in the order of their labels, or if the importance weights do not match them.
/// They are known to ascend if loss.order lists them in that order, if the data says so, or if
/// their names begin with whole numbers that increase by 1.
void check_order(const OrdinalLoss& loss, const DatasetDescription& train);

/// Returns the importance weights as float64 on the CPU; undefined if all are 1.
at::Tensor importance_weights_of(const OrdinalLoss& loss);

/// Returns the loss of `outputs` (n, classes - 1) for `labels` (n) int64, summed over samples: a
/// scalar with a graph. It is the binary cross-entropy of the outputs, where target k is 1 if the
/// label is above k. CORAL weights the outputs by `importance` (classes - 1), if defined; for CORN,
/// output k counts only for labels of at least k. Divided by ordinal_weight(), it is
/// coral-pytorch's coral_loss or corn_loss.
at::Tensor ordinal_loss_sum(const at::Tensor& outputs, const at::Tensor& labels, OrdinalHead head,
                            const at::Tensor& importance = {});

/// Returns the divisor for the loss of a whole batch: the number of samples for CORAL, and the
/// number of outputs that count for CORN. `labels` are (n) int64 on the CPU.
double ordinal_weight(const at::Tensor& labels, std::int64_t classes, OrdinalHead head);

}  // namespace stages
