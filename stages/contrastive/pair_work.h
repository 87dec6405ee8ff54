#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace stages {

// The tile operations of contrastive_loss() on tensors: the structs of pair_softmax.h as tensors.
// All have the type float32 or float64 and are on the device of the products.

/// Which implementation to use. kOperators: torch operators, on any device. kLines: the code of
/// pair_softmax.h, as GPU kernels, or as a slow loop on the CPU; on the Meta device it does
/// nothing.
enum class PairWork { kOperators, kLines };

/// The products of a tile, (rows, columns) and contiguous, and its first row and column.
struct TileTensor {
  at::Tensor products;
  std::int64_t row, column;
  bool has_factor = false;  ///< they are already similarities; only with kOperators
};
/// As in PairGroups, or undefined.
struct RightTensors {
  at::Tensor group, share;
};
/// (n) each; initially empty sums.
struct SumTensors {
  SumTensors(PairWork work, std::int64_t count, const at::TensorOptions& options);
  at::Tensor of_rows() const;  ///< log Σ exp
  at::Tensor of_columns() const;

  at::Tensor row_largest, row_sum, column_largest, column_sum, right;
};
/// (n) each, except the scalar `weight`.
struct GradientTensors {
  at::Tensor of_rows, of_columns, weight, by_scale;
};

/// Adds the similarities of a tile to the sums of its rows and of its columns. kOperators
/// overwrites the products with similarities.
void add_pair_sums(PairWork work, const TileTensor& tile, const at::Tensor& factor,
                   const RightTensors& right, const SumTensors& sums);

/// Returns the loss's gradients by the products of a tile, and adds to gradient.by_scale. kLines
/// overwrites the products with them; kOperators leaves similarities there.
at::Tensor pair_gradient(PairWork work, const TileTensor& tile, const at::Tensor& factor,
                         const RightTensors& right, const GradientTensors& gradient);

/// The implementation that contrastive_loss() uses, or is planned to use, on the device of `x`:
/// kernels on a GPU if this program has them or could not use a GPU anyway.
PairWork pair_work_for(const at::Tensor& x);

}  // namespace stages
