#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/contrastive/pair_work.h"

namespace stages {

/// Which texts match an image: those of its group, with equal shares. Without groups, only its own
/// text.
struct PairGroups {
  at::Tensor of_pair =
      {};  ///< (n) int64 from 0 to count - 1; undefined: each pair is its own group
  std::int64_t count = 0;
};

/// The symmetric contrastive loss InfoNCE of n pairs (Radford et al. 2021, arXiv:2103.00020). With
/// the similarities x = exp(logit_scale) · images · textsᵀ, it is the cross-entropy of each row and
/// each column against its matches, averaged over both directions and all pairs. Returns a scalar
/// with graph, in float32 at least.
///
/// `images` and `texts` (n, width) have rows of length 1; `logit_scale` is a scalar. The n²
/// similarities are never in memory at once. They are computed in square tiles of `tile` rows,
/// keeping only the log-sum-exp of each row and column. The gradient computes them a second time,
/// unless there is only one tile (Cheng et al. 2024, "Breaking the memory barrier",
/// arXiv:2410.17243). In exact arithmetic the tile size does not change the result.
at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const PairGroups& groups,
                            std::int64_t tile);

/// The same with an explicit choice of PairWork, instead of the one that suits the tensors' device.
at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const PairGroups& groups,
                            std::int64_t tile, PairWork work);

/// The tile size that suits embeddings such as `x`, (n, width), on their device. On a CPU larger
/// tiles are faster: the size is the largest from 128 to 512 that takes no more memory than the
/// embeddings and their gradients.
std::int64_t contrastive_tile(const at::Tensor& x);

/// For each row of `queries` (n, width), finds the row of `candidates` (m, width) with the largest
/// product; the first of equal ones wins. Returns (n) int64, computed tile by tile, without graph.
at::Tensor nearest(const at::Tensor& queries, const at::Tensor& candidates, std::int64_t tile);

}  // namespace stages
