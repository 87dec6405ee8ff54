#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace stages {

// The tile operations of contrastive_loss(), and the structs of pair_softmax.h with tensors instead
// of pointers. All values are float32 or float64, on the device of the products.

/// Which implementation to use. kOperators: torch operators, on any device. kLines: the code of
/// pair_softmax.h, as GPU kernels or as a slow loop on the CPU; does nothing on the Meta device.
enum class PairWork { kOperators, kLines };

/// The products of a tile, (rows, columns) and contiguous, and its first row and column.
struct TileTensor {
  at::Tensor products;
  std::int64_t row, column;
  bool has_factor = false;  ///< `products` are already similarities; only with kOperators
};
/// The groups and shares of RightPairs; undefined without groups.
struct RightTensors {
  at::Tensor group, share;
};
/// The sums of PairSums, (n) each. They start empty.
struct SumTensors {
  SumTensors(PairWork work, std::int64_t count, const at::TensorOptions& options);
  at::Tensor of_rows() const;  ///< log Σ exp
  at::Tensor of_columns() const;

  at::Tensor row_largest, row_sum, column_largest, column_sum, right;
};
/// The members of PairGradient, (n) each, except for the scalar `weight`.
struct GradientTensors {
  at::Tensor of_rows, of_columns, weight, by_scale;
};

/// Adds the similarities of a tile to the sums of its rows and of its columns. kOperators
/// overwrites the products with similarities.
void add_pair_sums(PairWork work, const TileTensor& tile, const at::Tensor& factor,
                   const RightTensors& right, const SumTensors& sums);

/// Returns the gradients of the loss with respect to the products of a tile, and adds to
/// gradient.by_scale. kLines overwrites the products with the gradients; kOperators, with
/// similarities.
at::Tensor pair_gradient(PairWork work, const TileTensor& tile, const at::Tensor& factor,
                         const RightTensors& right, const GradientTensors& gradient);

/// Returns the implementation that contrastive_loss() uses on the device of `x`, which for a Meta
/// tensor is the planned device. On a GPU, it is kLines, unless this program supports GPUs but was
/// built without the kernels.
PairWork pair_work_for(const at::Tensor& x);

}  // namespace stages
