#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

class Optimizer;

/// While it lives, the backward pass steps each parameter as soon as its gradient is there, and drops the gradient, so
/// that there are never all of them at once. A parameter's gradient is whole by then, and all that needs its value has
/// run: torch's engine waits for every use of it. So there must be one backward pass, and nothing that looks at all
/// gradients together.
class [[nodiscard]] ScopedStepsInBackward {
 public:
  /// `skip` as Optimizer::step() has it. `has_begun`, which is borrowed as `optimizer` is, becomes true when the first
  /// parameter is about to be stepped: from there on what is computed cannot be undone.
  ScopedStepsInBackward(Optimizer& optimizer, const std::optional<at::Tensor>& skip, bool& has_begun);
  ~ScopedStepsInBackward();
  ScopedStepsInBackward(const ScopedStepsInBackward&) = delete;
  ScopedStepsInBackward& operator=(const ScopedStepsInBackward&) = delete;

 private:
  const std::vector<at::Tensor> parameters_;
};

}  // namespace stages
