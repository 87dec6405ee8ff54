#pragma once

#include <variant>

namespace runner {
class ConfigReader;
}

namespace stages {

/// Stochastic gradient descent, with torch's conventions for momentum, dampening and Nesterov
/// momentum.
struct SgdOptions {
  double learning_rate = 0;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;  ///< added to the gradient
  bool operator==(const SgdOptions&) const = default;
};

/// Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019).
struct AdamOptions {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  bool amsgrad = false;
  bool decoupled = false;  ///< AdamW: weights shrink by learning_rate · weight_decay; false: weight
                           ///< decay is added to the gradient
  bool operator==(const AdamOptions&) const = default;
};

using OptimizerOptions = std::variant<SgdOptions, AdamOptions>;

/// Returns the learning rate before any schedule.
double learning_rate(const OptimizerOptions& options);

/// Reads a mapping as defined in schemas/train/optimizer/; contradictions become errors of
/// `reader`.
OptimizerOptions read_optimizer(runner::ConfigReader& reader);

}  // namespace stages
