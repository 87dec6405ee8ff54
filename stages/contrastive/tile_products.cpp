#include "stages/contrastive/tile_products.h"

#include <torch/types.h>

namespace stages {

at::Tensor TileProducts::at(std::int64_t row, std::int64_t rows, std::int64_t column,
                            std::int64_t columns) {
  if (!buffer_.defined()) buffer_ = at::empty({side_ * side_}, images_.options());
  at::Tensor products = buffer_.narrow(0, 0, rows * columns).view({rows, columns});
  // Autocast does not affect operations that write to an existing tensor.
  at::mm_out(products, images_.narrow(0, row, rows), texts_.narrow(0, column, columns).t());
  return products;
}

}  // namespace stages
