#pragma once

#include <vector>

#include "stages/train/optimizer.h"
#include "stages/train/training_kind.h"

namespace oom_claims {

/// Cross-entropy of an ImageNetwork's logits.
class ClassificationStep final : public stages::TrainingStep {
 public:
  /// `mixes_samples` is the result of mixes_samples().
  explicit ClassificationStep(bool mixes_samples = false) : mixes_samples_(mixes_samples) {}

  std::vector<stages::LossTerm> terms() const override;
  bool mixes_samples() const override { return mixes_samples_; }
  stages::NamedTensors encode(torch::nn::Module& network, const stages::Batch& part) const override;
  stages::NamedTensors loss(const stages::NamedTensors& encoded,
                            const stages::Batch& part) const override;

 private:
  const bool mixes_samples_;
};

inline constexpr stages::AdamOptions kAdamW{.learning_rate = 1e-3,
                                            .beta1 = 0.9,
                                            .beta2 = 0.999,
                                            .epsilon = 1e-8,
                                            .weight_decay = 0.01,
                                            .decoupled = true};

}  // namespace oom_claims
