#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace stages {

/// Whether grouped_convolution() takes maps (n, channels, h, w) and a weight (channels, channels of a group, 3, 3): of
/// float32 on a CPU, not under autocast, maps that lie pixel by pixel, and groups of four channels, or of eight where
/// the stride is two.
bool can_convolve_groups(const at::Tensor& maps, const at::Tensor& weight, std::int64_t stride);

/// Torch's conv2d by groups, with a padding of one. oneDNN computes the gradient of the weight as if each group were as
/// wide as a vector; here a vector holds several groups, and the sums do not depend on the threads. A gradient of the
/// gradient is refused with std::logic_error.
at::Tensor grouped_convolution(const at::Tensor& maps, const at::Tensor& weight, std::int64_t stride);

}  // namespace stages
