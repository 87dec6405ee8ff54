#pragma once

#include <algorithm>
#include <cstdint>

namespace stages {

/// Calls `work(first row, rows, first column, columns)` for each square tile of a matrix, in
/// row-major order.
template <typename Work>
void for_each_tile(std::int64_t rows, std::int64_t columns, std::int64_t tile, const Work& work) {
  for (std::int64_t row = 0; row < rows; row += tile) {
    for (std::int64_t column = 0; column < columns; column += tile)
      work(row, std::min(tile, rows - row), column, std::min(tile, columns - column));
  }
}

}  // namespace stages
