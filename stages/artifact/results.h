#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/stage.h"

namespace stages {

/// The outputs of a network for each sample.
class Predictions : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kPredictions;
  runner::ArtifactType type() const final { return kType; }
  runner::HeldMemory held() const final {
    return {.on_host = static_cast<std::int64_t>((scores.defined() ? scores.nbytes() : 0) +
                                                 (labels.defined() ? labels.nbytes() : 0))};
  }

  std::vector<std::string> names;  ///< one per sample
  at::Tensor scores;               ///< (n, classes) float32 on the CPU: probabilities
  at::Tensor labels;               ///< (n) int64 on the CPU
  std::vector<std::string> classes;
};

/// Metric values by name, such as "top1".
class Metrics : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kMetrics;
  runner::ArtifactType type() const final { return kType; }

  std::vector<std::pair<std::string, double>> values;
};

}  // namespace stages
