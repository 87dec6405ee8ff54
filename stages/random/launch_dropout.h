#pragma once

#include <cstdint>

#include "stages/random/dropout_mask.h"

namespace stages {

enum class FloatType { kFloat32, kFloat64, kFloat16, kBFloat16 };

/// Applies `mask` to `x` and writes the result to `y`, on the current GPU and in `stream` (a
/// cudaStream_t), without waiting for completion. The result is bitwise identical to that of
/// apply_dropout() on the CPU. `x` and `y` are (rows, width) in row-major order and may be the
/// same; `step` is one number, and `samples` has one per row. All are on that GPU, and are read
/// when the kernel runs. mask.drops_all() must be false, and there must be at least one element.
/// Throws std::runtime_error with CUDA's message.
void launch_dropout(const DropoutMask& mask, FloatType type, const void* x, void* y,
                    const std::int64_t* step, const std::int64_t* samples, std::int64_t rows,
                    std::int64_t width, void* stream);

}  // namespace stages
