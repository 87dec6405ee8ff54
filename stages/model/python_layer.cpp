#include "stages/model/python_layer.h"

#include <cstdint>

#include <torch/types.h>

namespace stages {

void PythonLayer::adopt_weights() {
  for (const auto& parameter : named_parameters(/*recurse=*/false)) {
    if (parameter.key() == "weight") weight = parameter.value();
    if (parameter.key() == "bias") bias = parameter.value();
  }
}

at::Tensor PythonLayer::run(const at::Tensor& x, const InPython& in_python) {
  has_run_ = true;
  at::Tensor output;
  {
    const OwnPrecision own(*this);
    const at::Tensor input = own(x);
    output = with_adapter(input, in_python(input));
  }
  return has_format() ? taken_in(current_precision(x.device()), output) : output;
}

at::Tensor PythonLayer::unbiased(const at::Tensor& x) const {
  const at::Tensor used = operand(weight, x);
  if (!steps_) return torch::linear(x, used);
  return torch::conv2d(x, used, {}, steps_->stride, steps_->padding, steps_->dilation);
}

/// Groups the rows of a linear layer by sample for dropout, which identifies each sample by one
/// row. A sample may have several rows, such as the windows of an image.
at::Tensor PythonLayer::with_adapter(const at::Tensor& x, const at::Tensor& output) const {
  if (!adapter() || !adapter()->drops() || steps_) return adapted(x, output);
  std::int64_t samples = 0;
  for (const auto& child : adapter()->children()) {
    if (const auto* dropout = child->as<Dropout>()) samples = dropout->rows();
  }
  if (samples == 0 || x.size(0) == samples || x.size(0) % samples != 0) return adapted(x, output);
  return adapted(x.reshape({samples, -1, x.size(-1)}),
                 output.reshape({samples, -1, output.size(-1)}))
      .reshape(output.sizes());
}

}  // namespace stages
