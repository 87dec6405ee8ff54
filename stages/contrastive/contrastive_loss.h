#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/tensor/host_device.h"

namespace stages {

// What contrastive_loss() does with a tile of products, on tensors: the structs of pair_softmax.h. All have the type
// float32 or float64 and lie where the products do.

/// By whom: operators, for any device; or the lines of pair_softmax.h, by a GPU's kernels or by a loop of the CPU,
/// which is slow. On the Meta device the lines do nothing.
enum class PairWork { kOperators, kLines };

/// The products of a tile, (rows, columns) and contiguous, and where it begins.
struct TileTensor {
  at::Tensor products;
  std::int64_t row, column;
  bool has_factor = false;  ///< they are similarities; for operators alone
};
/// As PairGroups has it, or undefined.
struct RightTensors {
  at::Tensor group, share;
};
/// (n) each; at first nothing has been added.
struct SumTensors {
  SumTensors(PairWork work, std::int64_t count, const at::TensorOptions& options);
  at::Tensor of_rows() const;  ///< log Σ exp
  at::Tensor of_columns() const;

  at::Tensor row_largest, row_sum, column_largest, column_sum, right;
};
/// (n) each but the scalar `weight`.
struct GradientTensors {
  at::Tensor of_rows, of_columns, weight, by_scale;
};

/// Adds the similarities of a tile to the sums of its rows and of its columns. Operators leave similarities in place of
/// the products.
void add_pair_sums(PairWork work, const TileTensor& tile, const at::Tensor& factor, const RightTensors& right,
                   const SumTensors& sums);

/// The loss's gradients by the products of a tile; adds to gradient.by_scale. The lines write them over the products,
/// operators leave similarities there.
at::Tensor pair_gradient(PairWork work, const TileTensor& tile, const at::Tensor& factor, const RightTensors& right,
                         const GradientTensors& gradient);

/// How contrastive_loss() does it where `x` lies, or is planned to: by kernels on a GPU, if this program has them or
/// could not use one anyway.
PairWork pair_work_for(const at::Tensor& x);

// What contrastive_loss() computes between its products: of one element or of one row. It needs no torch: a CPU's loop
// and a GPU's kernel share these lines. T is float or double; every number is T's.

/// log Σ exp(x) of numbers that come one by one, or in parts: no sum overflows. Nothing has been added at first.
template <typename T>
struct RunningLogSum {
  T largest = -INFINITY;  ///< of what has been added
  T sum = 0;              ///< Σ exp(x − largest)

  RETORT_HOST_DEVICE void add(T x) { add(RunningLogSum{x, 1}); }
  RETORT_HOST_DEVICE void add(const RunningLogSum& more) {
    if (more.sum == 0) return;
    if (more.largest > largest) {
      sum = sum * std::exp(largest - more.largest) + more.sum;
      largest = more.largest;
    } else {
      sum += more.sum * std::exp(more.largest - largest);
    }
  }
  RETORT_HOST_DEVICE T value() const { return largest + std::log(sum); }
};

/// Which texts are right for an image, with which shares: those of its group.
template <typename T>
struct RightPairs {
  const std::int64_t* group = nullptr;  ///< of each pair; null: each is a group of its own
  const T* share = nullptr;             ///< of each pair: 1 / the pairs of its group; null as `group` is

  RETORT_HOST_DEVICE T share_of(std::int64_t image, std::int64_t text) const {
    if (!group) return image == text ? T(1) : T(0);
    return group[image] == group[text] ? share[image] : T(0);
  }
};

/// A tile of the products of all images with all texts, (rows, columns) row after row, and where it begins. A
/// similarity is `factor` times its product.
template <typename T>
struct PairTile {
  T* products;
  std::int64_t row, rows, column, columns;
  const T* factor;

  RETORT_HOST_DEVICE T& product(std::int64_t i, std::int64_t j) const { return products[i * columns + j]; }
};

/// What is known of each image (a row) and each text (a column) so far.
template <typename T>
struct PairSums {
  T *row_largest, *row_sum, *column_largest, *column_sum;  ///< their RunningLogSum
  T* right;                                                ///< of each row: Σ share · similarity

  RETORT_HOST_DEVICE RunningLogSum<T> of_row(std::int64_t i) const { return {row_largest[i], row_sum[i]}; }
  RETORT_HOST_DEVICE RunningLogSum<T> of_column(std::int64_t j) const { return {column_largest[j], column_sum[j]}; }
  RETORT_HOST_DEVICE void set_row(std::int64_t i, const RunningLogSum<T>& sum) const {
    row_largest[i] = sum.largest;
    row_sum[i] = sum.sum;
  }
  RETORT_HOST_DEVICE void set_column(std::int64_t j, const RunningLogSum<T>& sum) const {
    column_largest[j] = sum.largest;
    column_sum[j] = sum.sum;
  }
};

/// What the gradient is computed of: log Σ exp of each row and each column, and of what `weight` says.
template <typename T>
struct PairGradient {
  const T *of_rows, *of_columns;
  const T* weight;  ///< a scalar: the loss's gradient by an element of one direction
  T* by_scale;      ///< of each row: Σ gradient · similarity, which the gradient by logit_scale is the sum of

  /// By a similarity: softmax less share, in both directions.
  RETORT_HOST_DEVICE T by_similarity(T similarity, std::int64_t row, std::int64_t column, T share) const {
    return *weight *
           ((std::exp(similarity - of_rows[row]) - share) + (std::exp(similarity - of_columns[column]) - share));
  }
};

/// What launch_pair_sums() does, an element after another in the memory of the CPU.
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

/// What launch_pair_gradient() does, likewise.
template <typename T>
void loop_pair_gradient(const PairTile<T>& tile, const RightPairs<T>& right, const PairGradient<T>& gradient) {
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

/// Which texts are right for an image: those of its group, with equal shares. Without groups, its own alone.
struct PairGroups {
  at::Tensor of_pair = {};  ///< (n) int64 from 0 to count - 1; undefined: each pair is a group of its own
  std::int64_t count = 0;
};

/// The symmetric contrastive loss InfoNCE of n pairs (Radford et al. 2021, arXiv:2103.00020): with the similarities
/// x = exp(logit_scale) · images · textsᵀ the cross-entropy of each row and of each column with its right ones, the
/// mean over both directions and all pairs. A scalar with graph, in float32 at least.
///
/// `images` and `texts` (n, width) have rows of length 1, `logit_scale` is a scalar. The n² similarities are never
/// there at once: they are gone through in square tiles of `tile` rows, of which the logarithms of the sums of rows and
/// columns are kept, and made once more for the gradient unless they are one tile (Cheng et al. 2024, "Breaking the
/// memory barrier", arXiv:2410.17243). In exact arithmetic the tile changes nothing.
at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts, const at::Tensor& logit_scale,
                            const PairGroups& groups, std::int64_t tile);

/// The same by other work than that which suits where the tensors lie.
at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts, const at::Tensor& logit_scale,
                            const PairGroups& groups, std::int64_t tile, PairWork work);

/// The tile that suits embeddings such as `x`, (n, width), where they lie. On a CPU larger ones are quicker: it is the
/// largest that takes no more memory than the embeddings and their gradients do, from 128 to 512.
std::int64_t contrastive_tile(const at::Tensor& x);

/// For each row of `queries` (n, width) the row of `candidates` (m, width) with the largest product, the first of equal
/// ones; (n) int64, tile by tile, without graph.
at::Tensor nearest(const at::Tensor& queries, const at::Tensor& candidates, std::int64_t tile);

/// Calls `work(first row, rows, first column, columns)` for each square tile of a matrix, row after row of tiles.
template <typename Work>
void for_each_tile(std::int64_t rows, std::int64_t columns, std::int64_t tile, const Work& work) {
  for (std::int64_t row = 0; row < rows; row += tile) {
    for (std::int64_t column = 0; column < columns; column += tile)
      work(row, std::min(tile, rows - row), column, std::min(tile, columns - column));
  }
}

}  // namespace stages
