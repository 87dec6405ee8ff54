#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace stages {

/// How position embeddings are brought to another number of patches.
enum class PositionResize {
  kBicubic,           ///< without antialiasing, as transformers' interpolate_pos_encoding
  kBicubicAntialias,  ///< with, as timm's resample_abs_pos_embed, which computes in float32 always
};

/// `positions` (1 + n², width), the class token's first, as (tokens, width) for a grid of another side; both `tokens`
/// and the rows of `positions` are one more than a square. Differentiable. The class token's is not touched.
at::Tensor resize_positions(const at::Tensor& positions, std::int64_t tokens, PositionResize how);

/// The side of the square grid of `tokens` less the class token; 0 where they make none.
std::int64_t grid_side(std::int64_t tokens);

}  // namespace stages
