#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// For each query how many candidates come before the best one that counts as found; 0 is the best
/// rank.
struct RetrievalRanks {
  std::vector<std::int64_t> image_to_text;  ///< of each image
  std::vector<std::int64_t> text_to_image;  ///< of each text
};

/// Ranks in both directions of normalised embeddings: `images` (n, width) and `texts` (m, width)
/// are on the CPU, of one floating-point type, and finite; `text_of` (n) says which text is that of
/// each image, and each text is that of one at least. An image asks among all texts for its own, a
/// text among all images for the best of its own. Where `text_of` is empty, row i of both is a
/// pair. A candidate with a greater product comes first, of equal ones the one with the lower
/// index: as open_clip ranks them. Products are added up in float64 and rounded to the embeddings'
/// type, or to float32 where that is narrower, so that equal texts have equal products wherever
/// they stand. It takes 20 `tile`^2 bytes, never n m; `step` is called before each square and may
/// throw.
RetrievalRanks retrieval_ranks(const at::Tensor& images, const at::Tensor& texts,
                               std::span<const std::int64_t> text_of, std::int64_t tile,
                               const std::function<void()>& step = {});

/// What ranks say, with 1 as the best rank. The median is rounded down.
struct RetrievalMetrics {
  double mean_rank = 0, median_rank = 0;
  std::map<std::int64_t, double>
      recall;  ///< by k: the share of queries that find something among the first k
};

/// Of at least one rank.
RetrievalMetrics retrieval_metrics(std::span<const std::int64_t> ranks,
                                   std::span<const std::int64_t> recall_at);

}  // namespace stages
