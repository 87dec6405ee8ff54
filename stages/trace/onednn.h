#pragma once

#include <cstdint>

namespace stages::meta {

/// A convolution in two dimensions, as far as the memory of its kernels depends on it.
struct ConvolutionShape {
  std::int64_t batch = 0, in = 0, out = 0, groups = 1;  ///< channels in all
  std::int64_t kernel_height = 0, kernel_width = 0;
  std::int64_t stride = 1;             ///< the larger one
  std::int64_t in_area = 0, area = 0;  ///< pixels of the input and of the result

  std::int64_t weight_elements() const { return out * (in / groups) * kernel_height * kernel_width; }
};

// What oneDNN, as LibTorch 2.11 has it, takes besides the tensors of a convolution on a CPU with AVX-512: measured with
// a counting allocator, and explained by how oneDNN works. All in elements of float32.

/// Whether torch gives the convolution to oneDNN at all; else to a loop of its own.
bool takes_onednn(const ConvolutionShape& shape, bool strided_or_dilated, std::int64_t threads);

/// A blocked copy rounds channels up to whole vectors of 16.
std::int64_t blocked_channels(std::int64_t channels);
/// The blocked copy of a weight.
std::int64_t blocked_weight(const ConvolutionShape& shape, bool channels_last);

/// Beside the copies, of the result's kernel.
std::int64_t forward_scratch(const ConvolutionShape& shape, bool channels_last, std::int64_t threads);
/// Of the kernel of the input's gradient.
std::int64_t input_gradient_scratch(const ConvolutionShape& shape, bool channels_last, std::int64_t threads);
/// Of the kernel of the weight's gradient, where every thread adds up a gradient of its own.
std::int64_t weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, std::int64_t threads);
/// The gradient of a channels_last weight before it is put in order: groups are padded to whole vectors.
std::int64_t channels_last_weight_gradient(const ConvolutionShape& shape);
/// True where the weight's gradient is a matrix product of unfolded images, which needs no blocked copy of the input.
bool unfolds(const ConvolutionShape& shape);

// Of half types, on a CPU with matrix units: fits to what patch convolutions take, near them and for small kernels
// rough. The sums of the weight's gradient are float32.

/// A weight with channels padded to whole vectors.
std::int64_t padded_weight(const ConvolutionShape& shape);
std::int64_t half_forward_scratch(const ConvolutionShape& shape, std::int64_t threads);
std::int64_t half_weight_gradient_scratch(const ConvolutionShape& shape, std::int64_t threads);

}  // namespace stages::meta
