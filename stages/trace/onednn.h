#pragma once

#include <cstdint>

#include "stages/trace/processor.h"

namespace stages::meta {

/// A convolution in two dimensions, as far as the memory of its kernels depends on it.
struct ConvolutionShape {
  std::int64_t batch = 0, in = 0, out = 0, groups = 1;  ///< channels in all
  std::int64_t kernel_height = 0, kernel_width = 0;
  std::int64_t stride = 1, padding = 0, dilation = 1;  ///< the largest of each
  std::int64_t in_area = 0, area = 0;                  ///< pixels of the input and of the result

  std::int64_t weight_elements() const { return out * (in / groups) * kernel_height * kernel_width; }
  /// Of the matrix whose columns are what the kernel sees of one image, for one group.
  std::int64_t unfolded_elements() const { return in / groups * kernel_height * kernel_width * area; }
  bool is_pointwise() const { return kernel_height == 1 && kernel_width == 1; }
};

/// The CPU that runs a kernel.
struct Cpu {
  Processor processor = {};
  std::int64_t threads = 1;
};

inline std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return divided_up(a, b) * b; }
/// Of a square of so many pixels.
std::int64_t side_of(std::int64_t area);

/// The gradients of wider ones are matrix products of unfolded images.
constexpr std::int64_t kWidestKernel = 14;

// What oneDNN, as LibTorch 2.11 has it, takes besides the tensors of a convolution of float32: measured with a counting
// allocator, and explained by how oneDNN works. All in elements.

/// Whether torch gives a convolution of float32 to oneDNN at all; else it unfolds images itself.
bool takes_onednn(const ConvolutionShape& shape, std::int64_t threads);

/// A blocked copy rounds channels up to whole vectors.
std::int64_t blocked_channels(std::int64_t channels, const Processor& processor);
/// The blocked copy of a weight.
std::int64_t blocked_weight(const ConvolutionShape& shape, bool channels_last, const Processor& processor);
/// Likewise as the kernel of the input's gradient reads it, which knows no images of three channels.
std::int64_t turned_weight(const ConvolutionShape& shape, bool channels_last, const Processor& processor);

/// What a thread of a convolution with a stride collects the input's gradient in: a padded image of 16 channels, or
/// where patches do not overlap a strip of them.
std::int64_t collected_image(const ConvolutionShape& shape);

/// Bytes of the list of products that a thread of a channels_last kernel adds up: one for each pixel of the kernel.
std::int64_t list_bytes(const ConvolutionShape& shape);

/// True where the result's kernel is a matrix product of unfolded images, which needs no blocked copies.
bool unfolds_forward(const ConvolutionShape& shape, const Processor& processor);
/// Likewise of the kernel of the input's gradient.
bool unfolds_input_gradient(const ConvolutionShape& shape, const Processor& processor);
/// Likewise of the kernel of the weight's gradient.
bool unfolds_weight_gradient(const ConvolutionShape& shape, const Processor& processor);

/// Of a large product x Wᵀ with so many numbers in a row of W, in bytes: each thread puts a strip of W in order.
std::int64_t float_product_scratch(std::int64_t inner, const Cpu& cpu);

/// Beside the copies, of the result's kernel.
std::int64_t forward_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu);
/// Of the kernel of the input's gradient.
std::int64_t input_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu);
/// Of the kernel of the weight's gradient, where every thread adds up a gradient of its own.
std::int64_t weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu);
/// The gradient of a channels_last weight before it is put in order: channels are padded to whole vectors.
std::int64_t channels_last_weight_gradient(const ConvolutionShape& shape, const Processor& processor);

// What kernels have been seen to take beyond all that at the most, where it depends on what is not modelled: oneDNN
// chooses between several kernels, and cuts images differently where they are small. In elements, of half types too.

std::int64_t forward_margin(const ConvolutionShape& shape, const Cpu& cpu);
std::int64_t input_gradient_margin(const ConvolutionShape& shape, const Cpu& cpu);
std::int64_t weight_gradient_margin(const ConvolutionShape& shape, bool is_half, const Cpu& cpu);

}  // namespace stages::meta
