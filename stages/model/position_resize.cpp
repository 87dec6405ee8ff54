#include "stages/model/position_resize.h"

#include <cassert>
#include <cmath>

#include <torch/types.h>

namespace stages {

std::int64_t grid_side(std::int64_t tokens) {
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(tokens - 1))));
  return side * side == tokens - 1 ? side : 0;
}

at::Tensor resize_positions(const at::Tensor& positions, std::int64_t tokens, PositionResize how) {
  const std::int64_t before = grid_side(positions.size(0)), after = grid_side(tokens), width = positions.size(1);
  assert(before > 0 && after > 0);
  if (before == after) return positions;
  const bool is_double = positions.scalar_type() == at::kDouble && how == PositionResize::kBicubic;
  const at::Tensor grid = positions.to(is_double ? at::kDouble : at::kFloat)
                              .slice(0, 1)
                              .reshape({1, before, before, width})
                              .permute({0, 3, 1, 2});
  const at::Tensor resized = how == PositionResize::kBicubicAntialias
                                 ? at::_upsample_bicubic2d_aa(grid, {after, after}, /*align_corners=*/false)
                                 : at::upsample_bicubic2d(grid, {after, after}, /*align_corners=*/false);
  const at::Tensor rows = resized.permute({0, 2, 3, 1}).reshape({after * after, width});
  return torch::cat({positions.slice(0, 0, 1), rows.to(positions.scalar_type())});
}

}  // namespace stages
