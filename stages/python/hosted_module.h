#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace stages {

/// Runs a module's own code in Python.
using InPython = std::function<at::Tensor(const at::Tensor&)>;

/// A module of a PythonNetwork that Retort can run instead of Python, to recompute it or to apply a
/// number format or an adapter to it. It is also a torch::nn::Module in the network's module tree.
class HostedModule {
 public:
  virtual ~HostedModule() = default;
  /// False if Python alone runs the module, as if Retort did not know about it.
  virtual bool is_active() const = 0;
  /// Returns the output for `x`. Call `in_python` to run the module's own code in Python.
  virtual at::Tensor run(const at::Tensor& x, const InPython& in_python) = 0;
};

}  // namespace stages
