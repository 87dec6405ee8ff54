#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"

namespace stages {

/// Looks at every tensor of a training as it goes. A run that has one waits for the device at every step.
class StepObserver : public runner::Observer {
 public:
  /// Where in a training a tensor is looked at.
  struct Place {
    std::string_view node;
    std::int64_t step;       ///< 1-based; 0: before the first
    std::string_view phase;  ///< "start", "batch", "loss", "gradient" or "weights", in this order within a step
  };

  /// How many steps a training is to make, if it has as many in an epoch.
  virtual std::int64_t steps() const = 0;
  /// `tensor` may be on any device, and is changed once this returns.
  virtual void see(const Place& place, std::string_view name, const at::Tensor& tensor) = 0;
};

}  // namespace stages
