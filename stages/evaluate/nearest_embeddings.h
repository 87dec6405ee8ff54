#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// A row that is near another, and the cosine of the angle between them, from -1 to 1.
struct Neighbor {
  std::int64_t row = 0;
  double similarity = 0;
  bool operator==(const Neighbor&) const = default;
};

/// For each row of `queries` (q, width), finds the `count` rows of `rows` (n, width) with the
/// largest cosine similarity, most similar first; equally similar rows are in row order. Returns
/// fewer if there are not that many rows. `queries` and `rows` are float32 on the CPU; a row of
/// zeros has similarity 0 to every row.
///
/// `is_left_out(query, row)` excludes a row from the neighbors of a query, such as the query
/// itself; if it is null, no row is excluded. `progress` is called with the number of finished
/// queries, and may throw to stop. Memory use does not grow with q · n.
std::vector<std::vector<Neighbor>> nearest_embeddings(
    const at::Tensor& queries, const at::Tensor& rows, std::int64_t count,
    const std::function<bool(std::int64_t query, std::int64_t row)>& is_left_out = {},
    const std::function<void(std::int64_t done)>& progress = {});

}  // namespace stages
