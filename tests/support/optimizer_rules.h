#pragma once

#include "stages/train/optimizer.h"

namespace stages {

/// AdamW with the usual averages.
constexpr AdamOptions adamw(double learning_rate, double weight_decay = 0.01) {
  return {.learning_rate = learning_rate,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .epsilon = 1e-8,
          .weight_decay = weight_decay,
          .amsgrad = false,
          .decoupled = true};
}

constexpr AdamOptions adamw_8bit(double learning_rate) {
  AdamOptions rule = adamw(learning_rate);
  rule.state_bits = 8;
  return rule;
}

/// Each rule with each of its options, at a learning rate of 0.1.
inline const OptimizerOptions kEveryRule[] = {
    SgdOptions{.learning_rate = 0.1, .weight_decay = 0.1},
    SgdOptions{.learning_rate = 0.1, .momentum = 0.9},
    SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5},
    SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true},
    AdamOptions{.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    adamw(0.1),
    AdamOptions{.learning_rate = 0.1,
                .beta1 = 0.8,
                .beta2 = 0.99,
                .epsilon = 1e-6,
                .weight_decay = 0.1,
                .amsgrad = true,
                .decoupled = false},
    LionOptions{.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1},
    LambOptions{
        .learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1},
    AdafactorOptions{.learning_rate = 0.1,
                     .beta2_decay = -0.8,
                     .minimum_scale = 1e-3,
                     .clip_threshold = 1,
                     .weight_decay = 0.1},
    MuonOptions{.learning_rate = 0.1,
                .momentum = 0.9,
                .nesterov = true,
                .steps = 5,
                .orthogonalization_epsilon = 1e-7,
                .weight_decay = 0.1,
                .adamw_factor = 0.5,
                .beta1 = 0.9,
                .beta2 = 0.99,
                .epsilon = 1e-8},
    SgdOptions{.learning_rate = 0.1,
               .momentum = 0.9,
               .dampening = 0,
               .nesterov = true,
               .weight_decay = 0.1,
               .state_bits = 8},
    AdamOptions{.learning_rate = 0.1,
                .beta1 = 0.9,
                .beta2 = 0.99,
                .epsilon = 1e-8,
                .weight_decay = 0.1,
                .amsgrad = false,
                .decoupled = false,
                .state_bits = 8},
    adamw_8bit(0.1),
    LionOptions{
        .learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .state_bits = 8},
    LambOptions{.learning_rate = 0.1,
                .beta1 = 0.9,
                .beta2 = 0.99,
                .epsilon = 1e-6,
                .weight_decay = 0.1,
                .trust_clip = false,
                .always_adapt = false,
                .state_bits = 8},
};

}  // namespace stages
