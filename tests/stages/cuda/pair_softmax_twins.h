#pragma once

#include <cstdint>
#include <vector>

/// What one tile after another of a matrix of products adds up to, and the gradients that are
/// written over them.
struct PairResults {
  std::vector<double> row_largest, row_sum, column_largest, column_sum, right, by_scale, gradients;
};

/// Of waves as products of so many pairs, those of a group being numbered by `group` (empty: each
/// is one of its own), in square tiles. By launch_pair_sums() and launch_pair_gradient() on the
/// first GPU: throws std::runtime_error with CUDA's message.
PairResults pairs_on_gpu(std::int64_t count, const std::vector<std::int64_t>& group,
                         std::int64_t tile, bool is_double);

/// The same by loop_pair_sums() and loop_pair_gradient().
PairResults pairs_on_cpu(std::int64_t count, const std::vector<std::int64_t>& group,
                         std::int64_t tile, bool is_double);
