#pragma once

#include <ATen/core/Tensor.h>

#include "stages/random/dropout_mask.h"

namespace stages {

/// `x` with dropped elements zero, whatever they held, and kept ones times mask.scale(). Not
/// recorded for a backward.
///
/// `x` has a sample a row and is float32, float64, float16 or bfloat16; narrow types are multiplied
/// in float32 and rounded to the nearest once. Elements count along a row in row-major order,
/// whatever the memory format. `samples` holds the number of each row's sample, 0 to 2^32 - 1, as
/// int64 on x's device. The result is contiguous, and the same bits on every device. Throws
/// std::invalid_argument where shapes or types are others.
at::Tensor apply_dropout(const DropoutMask& mask, const at::Tensor& x, const at::Tensor& samples);

/// The same by operators of torch alone, for devices without a loop or kernel of ours. It takes
/// some forty bytes an element for a while.
at::Tensor apply_dropout_by_operators(const DropoutMask& mask, const at::Tensor& x,
                                      const at::Tensor& samples);

}  // namespace stages
