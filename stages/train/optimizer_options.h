#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

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
  double weight_decay = 0;       ///< added to the gradient
  std::int64_t state_bits = 32;  ///< 8: moments are quantized (block_quantizer.h)
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
  std::int64_t state_bits = 32;  ///< 8: moments are quantized (block_quantizer.h)
  bool operator==(const AdamOptions&) const = default;
};

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023), like timm.optim.Lion.
struct LionOptions {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0;
  double weight_decay = 0;       ///< weights shrink by learning_rate · weight_decay
  std::int64_t state_bits = 32;  ///< 8: moments are quantized (block_quantizer.h)
  bool operator==(const LionOptions&) const = default;
};

/// LAMB (You et al., "Large Batch Optimization for Deep Learning", 2020), like timm.optim.Lamb with
/// max_grad_norm=None: the trainer limits the norm of the gradients.
struct LambOptions {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;  ///< this value times the weight is added to the update
  bool trust_clip = false;
  bool always_adapt = false;
  std::int64_t state_bits = 32;  ///< 8: moments are quantized (block_quantizer.h)
  bool operator==(const LambOptions&) const = default;
};

/// Adafactor (Shazeer and Stern, 2018), like torch.optim.Adafactor.
struct AdafactorOptions {
  double learning_rate = 0;
  double beta2_decay = 0;
  std::optional<double> epsilon = {};  ///< nullopt: the epsilon of the parameter's type
  double minimum_scale = 0;            ///< torch's eps[1]
  double clip_threshold = 1;           ///< torch's d
  double weight_decay = 0;             ///< weights shrink by learning_rate · weight_decay
  bool operator==(const AdafactorOptions&) const = default;
};

/// Muon (Jordan et al., 2024) for matrices, like torch.optim.Muon; AdamW for other parameters.
struct MuonOptions {
  double learning_rate = 0;
  double momentum = 0;
  bool nesterov = false;
  std::int64_t steps = 0;                    ///< Newton-Schulz iterations
  double orthogonalization_epsilon = 0;      ///< torch's eps
  bool matches_adamw = false;                ///< torch's adjust_lr_fn: match_rms_adamw or original
  double weight_decay = 0;                   ///< for all parameters, decoupled
  std::vector<std::string> adamw_for = {};   ///< patterns for matches_parameter()
  double adamw_factor = 1;                   ///< multiplies AdamW's learning rate
  double beta1 = 0, beta2 = 0, epsilon = 0;  ///< for AdamW
  bool operator==(const MuonOptions&) const = default;
};

using OptimizerOptions =
    std::variant<SgdOptions, AdamOptions, LionOptions, LambOptions, AdafactorOptions, MuonOptions>;

/// Returns the learning rate before any schedule is applied.
double learning_rate(const OptimizerOptions& options);

/// Returns the bits per element of the moments; 32 for rules without quantized state.
std::int64_t state_bits(const OptimizerOptions& options);

/// Returns the rule with 8-bit state; nullopt if it already has 8-bit state or does not support it.
std::optional<OptimizerOptions> with_8bit_state(OptimizerOptions options);

/// Reads a mapping as defined in schemas/train/optimizer/; reports contradictions as errors of
/// `reader`.
OptimizerOptions read_optimizer(runner::ConfigReader& reader);

}  // namespace stages
