#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace stages {

/// compute(x), of whose activations none but `x` is kept for the backward pass, which computes them again: under the
/// same names of dropout, in the same precision, from the same states of torch's generators and of the module's
/// buffers, which it leaves as they were found. The gradients have the same bits and reach the parameters by the same
/// ways, with one exception: halves that autocast has made of a weight are not shared with what runs outside, so that
/// the gradients of a weight that is used several times add up in float32.
///
/// `compute` uses no parameter, buffer or random layer that is not of `module`, and captures nothing that goes before
/// the backward pass. Where nothing is to have a gradient it is compute(x) and no more. A gradient of the gradient is
/// refused with std::logic_error.
at::Tensor recomputed(torch::nn::Module& module, const std::function<at::Tensor(const at::Tensor&)>& compute,
                      const at::Tensor& x);

}  // namespace stages
