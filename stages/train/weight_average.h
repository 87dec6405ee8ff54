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

/// How a moving average of the weights is kept, and whether it is what a training gives out.
struct WeightAverageOptions {
  double decay = 0;
  bool warmup = false;    ///< after step n the decay is at most (1 + n) / (10 + n)
  bool is_result = true;  ///< it is validated and handed on; false: the weights as trained are
  bool operator==(const WeightAverageOptions&) const = default;
};

/// Reads the option `ema`; nullopt where it is null.
std::optional<WeightAverageOptions> read_weight_average(runner::ConfigReader& reader);

/// An exponential moving average of all weights that a training changes, and of the running
/// statistics of normalisation layers: after each step, average = decay * average + (1 - decay) *
/// weight (Polyak and Juditsky 1992, doi:10.1137/0330046). It begins as the weights are. Steps that
/// fp16 skips count as steps.
class WeightAverage {
 public:
  /// The weights are shared with the network, on whatever device they are.
  WeightAverage(const torch::nn::Module& network, WeightAverageOptions options);

  /// After step `step`, 1-based. Allocates nothing.
  void update(std::int64_t step);
  /// Puts the averages in the place of the weights, and these in theirs. Allocates nothing.
  void swap();

  bool is_result() const { return options_.is_result; }
  /// "<weight>.average". Shared, not copied.
  NamedTensors state() const;

  /// Of what a checkpoint holds, the network's `model` and the `rest` that only a resumed training
  /// reads: puts what is the result into `model`, and the other into `rest` as "<weight>.average"
  /// or "<weight>.trained".
  void save(NamedTensors& model, NamedTensors& rest) const;
  /// The inverse: takes over a copy of the averages, and leaves in `model` the weights as trained
  /// and in `rest` what other parts have saved. Throws std::invalid_argument where an average is
  /// missing.
  void load(NamedTensors& model, NamedTensors& rest) const;

 private:
  const WeightAverageOptions options_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, averages_;
};

/// Puts into the `model` of a checkpoint what `rest`, its other part, has of its weights: those as
/// trained where the average is the result, else the average. Throws std::invalid_argument where
/// `rest` has none.
void take_other_weights(const WeightAverageOptions& options, NamedTensors& model,
                        const NamedTensors& rest);

/// While it lives, the network computes with the averages, where these are the result of the
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
