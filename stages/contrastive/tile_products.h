#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace stages {

/// Computes the products of the rows of `images` with the rows of `texts`, both (n, width), one
/// square tile of at most `tile` rows at a time. Each tile reuses the memory of the previous one.
/// Both tensors must outlive this object.
class TileProducts {
 public:
  TileProducts(const at::Tensor& images, const at::Tensor& texts, std::int64_t tile)
      : images_(images), texts_(texts), side_(std::min(tile, images.size(0))) {}

  /// Returns products (rows, columns), which are valid until the next call.
  at::Tensor at(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns);

 private:
  const at::Tensor &images_, &texts_;
  const std::int64_t side_;
  at::Tensor buffer_;
};

}  // namespace stages
