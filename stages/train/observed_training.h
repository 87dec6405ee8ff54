#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"
#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

struct Means;

/// Observes every tensor of a training run as it is computed. A run with an observer waits for the
/// device at every step.
class StepObserver : public runner::Observer {
 public:
  /// The point in training at which a tensor is observed.
  struct Place {
    std::string_view node;
    std::int64_t step;  ///< 1-based; 0: before the first step
    std::string_view
        phase;  ///< "start", "batch", "loss", "gradient" or "weights", in this order within a step
  };

  /// The number of steps to train, if an epoch has that many.
  virtual std::int64_t steps() const = 0;
  /// Receives a tensor, which may be on any device and may change after this returns.
  virtual void see(const Place& place, std::string_view name, const at::Tensor& tensor) = 0;
};

/// Shows the tensors of a training run to its observer, if it has one.
class ObservedTraining {
 public:
  /// `context` is borrowed.
  explicit ObservedTraining(const runner::RunContext& context);

  /// True if there is an observer. Call the other functions only then.
  explicit operator bool() const { return observer_ != nullptr; }
  /// Returns the observer's StepObserver::steps().
  std::int64_t steps() const { return observer_->steps(); }
  void show(std::string_view phase, std::int64_t step, const NamedTensors& tensors) const;
  /// Shows the loss of a step and its terms, then the gradients of the trained parameters.
  void show_gradient(std::int64_t step, const Means& means, const torch::nn::Module& network) const;

 private:
  const runner::RunContext& context_;
  StepObserver* const observer_;  // usually null
};

}  // namespace stages
