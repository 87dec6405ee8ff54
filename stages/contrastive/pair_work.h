#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace stages {

// What contrastive_loss() does with a tile of products, on tensors: the structs of pair_softmax.h.
// All have the type float32 or float64 and lie where the products do.

/// By whom: operators, for any device; or the lines of pair_softmax.h, by a GPU's kernels or by a
/// loop of the CPU, which is slow. On the Meta device the lines do nothing.
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

/// Adds the similarities of a tile to the sums of its rows and of its columns. Operators leave
/// similarities in place of the products.
void add_pair_sums(PairWork work, const TileTensor& tile, const at::Tensor& factor,
                   const RightTensors& right, const SumTensors& sums);

/// The loss's gradients by the products of a tile; adds to gradient.by_scale. The lines write them
/// over the products, operators leave similarities there.
at::Tensor pair_gradient(PairWork work, const TileTensor& tile, const at::Tensor& factor,
                         const RightTensors& right, const GradientTensors& gradient);

/// How contrastive_loss() does it where `x` lies, or is planned to: by kernels on a GPU, if this
/// program has them or could not use one anyway.
PairWork pair_work_for(const at::Tensor& x);

}  // namespace stages
