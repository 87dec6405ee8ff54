#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

/// The convolution of images `x` (n, channels, height, width) by `weight` (out, channels, patch, patch), whose stride
/// is its size; `bias` may be undefined. (n, out, height / patch, width / patch), torch's conv2d in exact arithmetic.
///
/// On a CPU in float32 or float64 it is the product of a matrix of patches, as linear_layer() has them, with channels
/// last in memory. Of the images nothing but `x` is kept for the gradients. Elsewhere, and where patches do not fill
/// the images, it is torch's own.
at::Tensor convolved_patches(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace stages
