#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "stages/model/adaptable_layer.h"
#include "stages/python/hosted_module.h"

namespace stages {

/// A linear layer or convolution of a PythonNetwork that can have an adapter. Python computes the
/// layer's own output.
class PythonLayer : public AdaptableLayer, public HostedModule {
 public:
  /// `steps` are the steps of a convolution; nullopt for a linear layer.
  explicit PythonLayer(std::optional<ConvolutionSteps> steps) : steps_(std::move(steps)) {}

  /// Sets `weight` and `bias` to the registered parameters with these names.
  void adopt_weights();
  /// True once run() has been called.
  bool has_run() const { return has_run_; }

  std::optional<ConvolutionSteps> steps() const override { return steps_; }
  bool is_active() const override { return has_format() || adapter(); }
  at::Tensor run(const at::Tensor& x, const InPython& in_python) override;

 protected:
  at::Tensor unbiased(const at::Tensor& x) const override;

 private:
  at::Tensor with_adapter(const at::Tensor& x, const at::Tensor& output) const;

  const std::optional<ConvolutionSteps> steps_;
  bool has_run_ = false;
};

}  // namespace stages
