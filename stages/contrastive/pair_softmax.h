#pragma once

#include <cmath>
#include <cstdint>

#include "stages/tensor/host_device.h"

namespace stages {

// The element-wise and row-wise computations of contrastive_loss(), between its matrix products.
// They do not depend on torch, so CPU loops and GPU kernels can share them. T is float or double;
// all values have type T.

/// Computes log Σ exp(x) over values that arrive one by one or in chunks, without overflow. Starts
/// empty.
template <typename T>
struct RunningLogSum {
  T largest = -INFINITY;  ///< largest value added so far
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

/// The texts that match an image (all texts in its group), and their shares.
template <typename T>
struct RightPairs {
  const std::int64_t* group =
      nullptr;               ///< the group of each pair; null: each pair is its own group
  const T* share = nullptr;  ///< for each pair, 1 / the number of pairs in its group; null if
                             ///< `group` is null

  RETORT_HOST_DEVICE T share_of(std::int64_t image, std::int64_t text) const {
    if (!group) return image == text ? T(1) : T(0);
    return group[image] == group[text] ? share[image] : T(0);
  }
};

/// A tile of the products of all images with all texts, of shape (rows, columns) in row-major
/// order, and its first row and column. A similarity is `factor` times a product.
template <typename T>
struct PairTile {
  T* products;
  std::int64_t row, rows, column, columns;
  const T* factor;

  RETORT_HOST_DEVICE T& product(std::int64_t i, std::int64_t j) const {
    return products[i * columns + j];
  }
};

/// Running sums for each image (a row) and each text (a column).
template <typename T>
struct PairSums {
  /// The members of the RunningLogSum of each row and each column.
  T *row_largest, *row_sum, *column_largest, *column_sum;
  T* right;  ///< for each row, Σ share · similarity

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

/// The log Σ exp of each row and each column, and the other inputs and outputs of the gradient
/// computation.
template <typename T>
struct PairGradient {
  const T *of_rows, *of_columns;
  const T* weight;  ///< a scalar: the loss's gradient with respect to a row's or column's term
  T* by_scale;  ///< for each row, Σ gradient · similarity; they add up to logit_scale's gradient

  /// Returns the gradient with respect to a similarity: softmax minus share, in both directions.
  RETORT_HOST_DEVICE T by_similarity(T similarity, std::int64_t row, std::int64_t column,
                                     T share) const {
    return *weight * ((std::exp(similarity - of_rows[row]) - share) +
                      (std::exp(similarity - of_columns[column]) - share));
  }
};

}  // namespace stages
