#include "stages/evaluate/nearest_embeddings.h"

#include <algorithm>

#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

constexpr std::int64_t kQueriesAtOnce = 256, kCandidatesAtOnce = 4096;

bool is_nearer(const Neighbor& one, const Neighbor& other) {
  return one.similarity != other.similarity ? one.similarity > other.similarity
                                            : one.row < other.row;
}

at::Tensor of_length_one(const at::Tensor& rows) {
  constexpr double kLeast = 1e-30;  // leaves a row of zeros unchanged
  return rows / rows.norm(2, /*dim=*/1, /*keepdim=*/true).clamp_min(kLeast);
}

/// Keeps the nearest rows seen so far, as a heap with the farthest of them at the front.
class Nearest {
 public:
  explicit Nearest(std::size_t count) : count_(count) {}

  bool would_take(const Neighbor& row) const {
    return found_.size() < count_ || (count_ > 0 && is_nearer(row, found_.front()));
  }
  void take(const Neighbor& row) {
    if (found_.size() == count_) {
      std::ranges::pop_heap(found_, is_nearer);
      found_.pop_back();
    }
    found_.push_back(row);
    std::ranges::push_heap(found_, is_nearer);
  }
  std::vector<Neighbor> sorted() && {
    std::ranges::sort(found_, is_nearer);
    return std::move(found_);
  }

 private:
  const std::size_t count_;
  std::vector<Neighbor> found_;
};

}  // namespace

std::vector<std::vector<Neighbor>> nearest_embeddings(
    const at::Tensor& queries, const at::Tensor& rows, std::int64_t count,
    const std::function<bool(std::int64_t query, std::int64_t row)>& is_left_out,
    const std::function<void(std::int64_t done)>& progress) {
  const torch::NoGradGuard no_graph;
  std::vector<std::vector<Neighbor>> all;
  for (std::int64_t first = 0; first < queries.size(0); first += kQueriesAtOnce) {
    const at::Tensor asked =
        of_length_one(queries.narrow(0, first, std::min(kQueriesAtOnce, queries.size(0) - first)));
    std::vector<Nearest> nearest(static_cast<std::size_t>(asked.size(0)),
                                 Nearest(static_cast<std::size_t>(count)));
    for (std::int64_t begin = 0; begin < rows.size(0); begin += kCandidatesAtOnce) {
      const at::Tensor among =
          of_length_one(rows.narrow(0, begin, std::min(kCandidatesAtOnce, rows.size(0) - begin)));
      const at::Tensor products = asked.mm(among.t()).clamp_(-1, 1);
      const float* product = products.const_data_ptr<float>();
      for (std::int64_t query = 0; query < asked.size(0); ++query) {
        Nearest& of_query = nearest[static_cast<std::size_t>(query)];
        for (std::int64_t row = 0; row < among.size(0); ++row) {
          const Neighbor neighbor{begin + row, *product++};
          if (!of_query.would_take(neighbor)) continue;
          if (is_left_out && is_left_out(first + query, neighbor.row)) continue;
          of_query.take(neighbor);
        }
      }
    }
    for (Nearest& of_query : nearest) all.push_back(std::move(of_query).sorted());
    if (progress) progress(static_cast<std::int64_t>(all.size()));
  }
  return all;
}

}  // namespace stages
