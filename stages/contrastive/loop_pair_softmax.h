#pragma once

#include "stages/contrastive/pair_softmax.h"

namespace stages {

/// CPU version of launch_pair_sums(): loops over the elements in host memory.
template <typename T>
void loop_pair_sums(const PairTile<T>& tile, const RightPairs<T>& right, const PairSums<T>& sums) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    RunningLogSum<T> of_row = sums.of_row(tile.row + i);
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      const T similarity = *tile.factor * tile.product(i, j);
      of_row.add(similarity);
      RunningLogSum<T> of_column = sums.of_column(tile.column + j);
      of_column.add(similarity);
      sums.set_column(tile.column + j, of_column);
      sums.right[tile.row + i] += right.share_of(tile.row + i, tile.column + j) * similarity;
    }
    sums.set_row(tile.row + i, of_row);
  }
}

/// CPU version of launch_pair_gradient().
template <typename T>
void loop_pair_gradient(const PairTile<T>& tile, const RightPairs<T>& right,
                        const PairGradient<T>& gradient) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const std::int64_t row = tile.row + i;
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      const std::int64_t column = tile.column + j;
      const T similarity = *tile.factor * tile.product(i, j);
      const T own = gradient.by_similarity(similarity, row, column, right.share_of(row, column));
      gradient.by_scale[row] += own * similarity;
      tile.product(i, j) = own * *tile.factor;
    }
  }
}

}  // namespace stages
