#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// For each query, the number of candidates ranked ahead of its best match; 0 is the best rank.
struct RetrievalRanks {
  std::vector<std::int64_t> image_to_text;  ///< one per image
  std::vector<std::int64_t> text_to_image;  ///< one per text
};

/// Ranks normalized embeddings in both directions. `images` (n, width) and `texts` (m, width) must
/// be finite, on the CPU, and of the same floating-point type. `text_of` (n) is the index of each
/// image's text; every text belongs to at least one image. Each image is a query for its own text
/// among all texts; each text is a query for the best of its own images among all images. If
/// `text_of` is empty, row i of `images` and row i of `texts` form a pair. Candidates with larger
/// products rank first; ties go to the lower index, as in open_clip. Products are summed in float64
/// and rounded to the embeddings' type, or to float32 if that type is narrower, so that equal texts
/// have equal products at any index. The products need 20 · `tile`² bytes, regardless of n and m.
/// `step` is called before each tile and may throw.
RetrievalRanks retrieval_ranks(const at::Tensor& images, const at::Tensor& texts,
                               std::span<const std::int64_t> text_of, std::int64_t tile,
                               const std::function<void()>& step = {});

/// A summary of ranks, with 1 as the best rank. The median is rounded down.
struct RetrievalMetrics {
  double mean_rank = 0, median_rank = 0;
  std::map<std::int64_t, double>
      recall;  ///< for each k, the share of queries with a match among the first k
};

/// Summarizes one or more ranks, with the recall at each of `recall_at`.
RetrievalMetrics retrieval_metrics(std::span<const std::int64_t> ranks,
                                   std::span<const std::int64_t> recall_at);

}  // namespace stages
