#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

/// relu(maps · gate + added), the end of a block with a gate: `maps` and `added` (n, channels, h, w), `gate`
/// (n, channels, 1, 1). The bits are those of torch's operators, and so is what is kept for the backward pass: maps,
/// gate and the result. On a CPU maps of float32 that lie pixel by pixel are read and written once in each direction;
/// there a gradient of the gradient is refused with std::logic_error.
at::Tensor gated_residual(const at::Tensor& maps, const at::Tensor& gate, const at::Tensor& added);

}  // namespace stages
