#pragma once

#include <ATen/core/Tensor.h>

#include "stages/random/dropout_mask.h"

namespace stages {

/// What the masks of a layer's input depend on in addition to the layer, in the memory of one
/// device, as int64: numbers from 0 to 2^32 - 1.
struct DropoutRows {
  at::Tensor step;     ///< scalar
  at::Tensor samples;  ///< (rows): the sample number of each row
};

/// Returns `x` with dropped elements set to zero, regardless of their value, and kept elements
/// multiplied by mask.scale(). Not recorded by autograd.
///
/// `x` has one row per sample and is float32, float64, float16 or bfloat16. Half-precision types
/// are multiplied in float32 and rounded once, to nearest. Elements are counted along a row in
/// row-major order, regardless of the memory format. `rows` is on x's device. The result is
/// contiguous and bit-identical on all devices. Throws std::invalid_argument for other shapes or
/// types.
at::Tensor apply_dropout(const DropoutMask& mask, const at::Tensor& x, const DropoutRows& rows);

/// Same as apply_dropout(), but uses only PyTorch operators, for devices for which Retort has no
/// loop or kernel. Temporarily needs about forty bytes per element.
at::Tensor apply_dropout_by_operators(const DropoutMask& mask, const at::Tensor& x,
                                      const DropoutRows& rows);

}  // namespace stages
