#pragma once

#include <cstdint>

#include "stages/trace/onednn.h"

namespace stages::meta {

// What oneDNN takes besides the tensors of a convolution of a half type, in bytes. Its sums are float32.

/// Beside the copies, of the result's kernel.
std::int64_t half_forward_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu);
/// Of the kernel of the input's gradient.
std::int64_t half_input_gradient_scratch(const ConvolutionShape& shape, const Cpu& cpu);
/// Of the kernel of the weight's gradient, which turns both images and adds up in float32.
std::int64_t half_weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu);
/// The same of groups of more than one channel.
std::int64_t half_grouped_weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu);

/// A weight with an even number of channels.
std::int64_t paired_weight(const ConvolutionShape& shape);

// What oneDNN takes besides the tensors of matrix products of a half type, in bytes.

struct ProductShape {
  std::int64_t batch = 1, rows = 0, inner = 0, columns = 0;
  bool is_turned = false;  ///< the first factor lies in memory with its columns whole, as in a weight's gradient
};

/// Whether torch gives the products to oneDNN at all; else it multiplies by loops of its own, which take nothing.
bool takes_onednn(const ProductShape& shape);
std::int64_t product_scratch(const ProductShape& shape, const Cpu& cpu);

}  // namespace stages::meta
