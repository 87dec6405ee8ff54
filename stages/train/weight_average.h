#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/tensor/named_tensors.h"

namespace runner {
class ConfigReader;
}
namespace torch::nn {
class Module;
}

namespace stages {

/// How a moving average of the weights is kept, and whether it is the result of training.
struct WeightAverageOptions {
  double decay = 0;
  bool warmup = false;    ///< limit the decay to (1 + n) / (10 + n) after step n
  bool is_result = true;  ///< validate and output the average; false: the trained weights
  bool operator==(const WeightAverageOptions&) const = default;
};

/// Reads the option `ema`; returns nullopt if it is null.
std::optional<WeightAverageOptions> read_weight_average(runner::ConfigReader& reader);

/// An exponential moving average of all weights that training changes, and of the running
/// statistics of normalization layers: after each step, average = decay * average + (1 - decay) *
/// weight (Polyak and Juditsky 1992, doi:10.1137/0330046). It starts as a copy of the weights.
/// Steps that fp16 skips count as steps.
class WeightAverage {
 public:
  /// Shares the weights with the network, on any device.
  WeightAverage(const torch::nn::Module& network, WeightAverageOptions options);

  /// Call this after step `step`, 1-based. Allocates nothing.
  void update(std::int64_t step);
  /// Exchanges the averages and the weights. Allocates nothing.
  void swap();

  bool is_result() const { return options_.is_result; }
  /// Returns the averages as "<weight>.average". Shared, not copied.
  NamedTensors state() const;

  /// Rearranges the contents of a checkpoint: the network's `model`, and the `rest` that only a
  /// resumed run reads. Puts the result of training into `model`, and the other weights into `rest`
  /// as "<weight>.average" or "<weight>.trained".
  void save(NamedTensors& model, NamedTensors& rest) const;
  /// The inverse of save(): loads a copy of the averages, and leaves the trained weights in `model`
  /// and the state of other parts in `rest`. Throws std::invalid_argument if an average is missing.
  void load(NamedTensors& model, NamedTensors& rest) const;

 private:
  const WeightAverageOptions options_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, averages_;
};

/// Replaces the weights in a checkpoint's `model` by the other weights from its `rest`: the trained
/// weights if the average is the result, otherwise the average. Throws std::invalid_argument if
/// `rest` has none.
void take_other_weights(const WeightAverageOptions& options, NamedTensors& model,
                        const NamedTensors& rest);

/// While this object lives, the network computes with the averages, if they are the result of
/// training.
class [[nodiscard]] ScopedAverage {
 public:
  /// `average` may be null.
  explicit ScopedAverage(WeightAverage* average);
  ~ScopedAverage();
  ScopedAverage(const ScopedAverage&) = delete;
  ScopedAverage& operator=(const ScopedAverage&) = delete;

 private:
  WeightAverage* const average_;
};

}  // namespace stages
