#pragma once

#include <cstdint>
#include <vector>

/// The sums over all tiles of a matrix of products, and the gradients that overwrite the products.
struct PairResults {
  std::vector<double> row_largest, row_sum, column_largest, column_sum, right, by_scale, gradients;
};

/// Computes the results for `count` pairs with waves as products, in square tiles, by
/// launch_pair_sums() and launch_pair_gradient() on the first GPU. `group` numbers the group of
/// each pair (empty: each pair is its own group). Throws std::runtime_error with CUDA's message.
PairResults pairs_on_gpu(std::int64_t count, const std::vector<std::int64_t>& group,
                         std::int64_t tile, bool is_double);

/// Computes the same results on the CPU, by loop_pair_sums() and loop_pair_gradient().
PairResults pairs_on_cpu(std::int64_t count, const std::vector<std::int64_t>& group,
                         std::int64_t tile, bool is_double);
