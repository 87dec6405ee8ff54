#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace stages {

/// Shows every tensor that autograd keeps for a backward pass, on this thread as long as it lives. A tensor is shown
/// once for each operation that keeps it. The inner scope counts. The first one installs an engine of ours in torch,
/// which differs from torch's own in nothing else.
class [[nodiscard]] ScopedSavedTensors {
 public:
  explicit ScopedSavedTensors(std::function<void(const at::Tensor&)> show);
  ~ScopedSavedTensors();
  ScopedSavedTensors(const ScopedSavedTensors&) = delete;
  ScopedSavedTensors& operator=(const ScopedSavedTensors&) = delete;

 private:
  const std::function<void(const at::Tensor&)> show_;
  const std::function<void(const at::Tensor&)>* const before_;
};

}  // namespace stages
