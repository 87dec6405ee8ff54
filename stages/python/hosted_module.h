#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace stages {

/// Runs the code of a module in Python.
using InPython = std::function<at::Tensor(const at::Tensor&)>;

/// A module of a PythonNetwork that Retort can run in place of Python: to recompute it, or to give
/// it a number format or an adapter. It is also a torch::nn::Module, in the network's tree.
class HostedModule {
 public:
  virtual ~HostedModule() = default;
  /// False: Python runs it alone, as if Retort did not know it.
  virtual bool is_active() const = 0;
  /// Its output for `x`; `in_python` computes what its code in Python does.
  virtual at::Tensor run(const at::Tensor& x, const InPython& in_python) = 0;
};

}  // namespace stages
