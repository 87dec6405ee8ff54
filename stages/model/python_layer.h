#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "stages/model/adaptable_layer.h"
#include "stages/python/hosted_module.h"

namespace stages {

/// A linear layer or convolution of a PythonNetwork, which can have an adapter. Python computes the
/// layer's own product.
class PythonLayer : public AdaptableLayer, public HostedModule {
 public:
  /// `steps` are those of a convolution.
  explicit PythonLayer(std::optional<ConvolutionSteps> steps) : steps_(std::move(steps)) {}

  /// Makes the registered parameters its weight and bias.
  void adopt_weights();
  /// True once it has run with its adapter.
  bool has_run() const { return has_run_; }

  std::optional<ConvolutionSteps> steps() const override { return steps_; }
  bool is_active() const override { return has_format() || adapter(); }
  at::Tensor run(const at::Tensor& x, const InPython& in_python) override;

 private:
  at::Tensor with_adapter(const at::Tensor& x, const at::Tensor& output) const;

  const std::optional<ConvolutionSteps> steps_;
  bool has_run_ = false;
};

}  // namespace stages
