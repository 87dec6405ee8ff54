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

}  // namespace stages::meta
