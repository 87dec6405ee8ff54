#pragma once

#include <cstdint>
#include <functional>
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

/// How an average of the weights is kept, and whether it is the result of training.
struct WeightAverageOptions {
  bool is_equal = false;  ///< an equal average over epochs; false: a moving average over steps
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
/// Steps skipped in fp16 count as steps.
///
/// Alternatively, an equal average of the weights at the ends of epochs, as in stochastic weight
/// averaging (Izmailov et al. 2018, arXiv:1803.05407): torch's AveragedModel. Running statistics
/// are then copies of the network's and must be recomputed (swa.h). Until it includes an epoch, the
/// trained weights are the result.
class WeightAverage {
 public:
  /// Shares the weights with the network, on any device. `is_elsewhere` may be null; averages of
  /// weights for which it is true have no memory (tensor_memory.h).
  WeightAverage(const torch::nn::Module& network, WeightAverageOptions options,
                const std::function<bool(const at::Tensor& weight)>& is_elsewhere = {});

  /// Call this after `step` (1-based). Allocates nothing. An equal average does not change.
  void update(std::int64_t step);
  /// Adds the current weights to an equal average as its `epoch`-th epoch, 1-based. Does nothing if
  /// they are already included. Allocates nothing.
  void include(std::int64_t epoch);
  /// Returns the number of epochs in an equal average.
  std::int64_t epochs() const { return epochs_; }
  /// Swaps the averages and the weights. Allocates nothing.
  void swap();

  /// True if the average is currently the result of training.
  bool is_result() const { return options_.is_result && (!options_.is_equal || epochs_ > 0); }
  /// Returns the averages as "<weight>.average". Shared, not copied.
  NamedTensors state() const;

  /// Rearranges the contents of a checkpoint: the network's `model`, and the `rest` that only a
  /// resumed run reads. Puts the result of training into `model`, and the other weights into `rest`
  /// as "<weight>.average" or "<weight>.trained".
  void save(NamedTensors& model, NamedTensors& rest) const;
  /// The inverse of save(): loads a copy of the averages, and leaves the trained weights in `model`
  /// and the state of other parts in `rest`. Throws std::invalid_argument if an average is missing.
  void load(NamedTensors& model, NamedTensors& rest);

 private:
  const WeightAverageOptions options_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, averages_;
  std::size_t trained_ = 0;  // number of weights before the running statistics
  std::int64_t epochs_ = 0;
};

/// Replaces the weights in a checkpoint's `model` with the other weights from its `rest`: the
/// trained weights if the average is the result, otherwise the average. Throws
/// std::invalid_argument if `rest` has none.
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
