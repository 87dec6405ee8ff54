#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/contrastive/pair_work.h"

namespace stages {

/// Defines which texts match an image: all texts in its group, with equal shares. Without groups,
/// only its own text matches.
struct PairGroups {
  at::Tensor of_pair =
      {};  ///< (n) int64 from 0 to count - 1; undefined: each pair is its own group
  std::int64_t count = 0;
};

/// Returns the symmetric InfoNCE loss of n image-caption pairs (Radford et al. 2021,
/// arXiv:2103.00020). With the similarities x = exp(logit_scale) · images · textsᵀ, the loss is the
/// cross-entropy of each row and each column against its matches, averaged over both directions and
/// all pairs. It is a differentiable scalar in float32 or wider.
///
/// The rows of `images` and `texts` (n, width) have an L2 norm of 1; `logit_scale` is a scalar. The
/// n² similarities are never in memory all at once. They are computed in square tiles of `tile`
/// rows, keeping only the log-sum-exp of each row and column. The similarities are computed again
/// for the gradient, unless there is only one tile (Cheng et al. 2024, "Breaking the memory
/// barrier", arXiv:2410.17243). In exact arithmetic the tile size does not change the result.
at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const PairGroups& groups,
                            std::int64_t tile);

/// Like contrastive_loss() above, but with an explicit PairWork instead of pair_work_for(images).
at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const PairGroups& groups,
                            std::int64_t tile, PairWork work);

/// Returns a suitable tile size for embeddings like `x`, of shape (n, width), on their device. On a
/// CPU, where larger tiles are faster, it is the largest power of two from 128 to 512 that needs no
/// more memory than the embeddings and their gradients; 128 if none does.
std::int64_t contrastive_tile(const at::Tensor& x);

/// For each row of `queries` (n, width), finds the row of `candidates` (m, width) with the largest
/// dot product; ties go to the first. Returns their indices as int64 of shape (n). Builds no
/// autograd graph. Computes the products tile by tile.
at::Tensor nearest(const at::Tensor& queries, const at::Tensor& candidates, std::int64_t tile);

}  // namespace stages
