#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// For each query how many candidates come before the best one that counts as found; 0 is the best rank.
struct RetrievalRanks {
  std::vector<std::int64_t> image_to_text, text_to_image;
};

/// Ranks in both directions of pairs of normalised embeddings: `images` and `texts` are (n, width) on the CPU, of one
/// floating-point type, and finite; row i of both is a pair. What counts as found for pair i are the pairs whose number
/// in `captions` (n) is the same, or its own alone where `captions` is empty. A candidate with a greater product comes
/// first, of equal ones the one with the lower index: as open_clip ranks them. Products are added up in float64 and
/// rounded to the embeddings' type, or to float32 where that is narrower, so that equal texts have equal products
/// wherever they stand. It takes 20 `tile`^2 bytes, never n^2; `step` is called before each square and may throw.
RetrievalRanks retrieval_ranks(const at::Tensor& images, const at::Tensor& texts,
                               std::span<const std::int64_t> captions, std::int64_t tile,
                               const std::function<void()>& step = {});

/// What ranks say, with 1 as the best rank. The median is rounded down.
struct RetrievalMetrics {
  double mean_rank = 0, median_rank = 0;
  std::map<std::int64_t, double> recall;  ///< by k: the share of queries that find something among the first k
};

/// Of at least one rank.
RetrievalMetrics retrieval_metrics(std::span<const std::int64_t> ranks, std::span<const std::int64_t> recall_at);

}  // namespace stages
