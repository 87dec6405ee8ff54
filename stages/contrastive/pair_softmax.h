#pragma once

#include <cmath>
#include <cstdint>

#include "stages/tensor/host_device.h"

namespace stages {

// What contrastive_loss() computes between its products: of one element or of one row. It needs no
// torch: a CPU's loop and a GPU's kernel share these lines. T is float or double; every number is
// T's.

/// log Σ exp(x) of numbers that come one by one, or in parts: no sum overflows. Nothing has been
/// added at first.
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
  const T* share = nullptr;  ///< of each pair: 1 / the pairs of its group; null as `group` is

  RETORT_HOST_DEVICE T share_of(std::int64_t image, std::int64_t text) const {
    if (!group) return image == text ? T(1) : T(0);
    return group[image] == group[text] ? share[image] : T(0);
  }
};

/// A tile of the products of all images with all texts, (rows, columns) row after row, and where it
/// begins. A similarity is `factor` times its product.
template <typename T>
struct PairTile {
  T* products;
  std::int64_t row, rows, column, columns;
  const T* factor;

  RETORT_HOST_DEVICE T& product(std::int64_t i, std::int64_t j) const {
    return products[i * columns + j];
  }
};

/// What is known of each image (a row) and each text (a column) so far.
template <typename T>
struct PairSums {
  T *row_largest, *row_sum, *column_largest, *column_sum;  ///< their RunningLogSum
  T* right;                                                ///< of each row: Σ share · similarity

  RETORT_HOST_DEVICE RunningLogSum<T> of_row(std::int64_t i) const {
    return {row_largest[i], row_sum[i]};
  }
  RETORT_HOST_DEVICE RunningLogSum<T> of_column(std::int64_t j) const {
    return {column_largest[j], column_sum[j]};
  }
  RETORT_HOST_DEVICE void set_row(std::int64_t i, const RunningLogSum<T>& sum) const {
    row_largest[i] = sum.largest;
    row_sum[i] = sum.sum;
  }
  RETORT_HOST_DEVICE void set_column(std::int64_t j, const RunningLogSum<T>& sum) const {
    column_largest[j] = sum.largest;
    column_sum[j] = sum.sum;
  }
};

/// What the gradient is computed of: log Σ exp of each row and each column, and of what `weight`
/// says.
template <typename T>
struct PairGradient {
  const T *of_rows, *of_columns;
  const T* weight;  ///< a scalar: the loss's gradient by an element of one direction
  T* by_scale;  ///< of each row: Σ gradient · similarity, which the gradient by logit_scale is the
                ///< sum of

  /// By a similarity: softmax less share, in both directions.
  RETORT_HOST_DEVICE T by_similarity(T similarity, std::int64_t row, std::int64_t column,
                                     T share) const {
    return *weight * ((std::exp(similarity - of_rows[row]) - share) +
                      (std::exp(similarity - of_columns[column]) - share));
  }
};

}  // namespace stages
