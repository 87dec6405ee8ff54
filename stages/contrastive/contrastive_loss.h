#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/contrastive/pair_work.h"

namespace stages {

/// Which texts are right for an image: those of its group, with equal shares. Without groups, its
/// own alone.
struct PairGroups {
  at::Tensor of_pair =
      {};  ///< (n) int64 from 0 to count - 1; undefined: each pair is a group of its own
  std::int64_t count = 0;
};

/// The symmetric contrastive loss InfoNCE of n pairs (Radford et al. 2021, arXiv:2103.00020): with
/// the similarities x = exp(logit_scale) · images · textsᵀ the cross-entropy of each row and of
/// each column with its right ones, the mean over both directions and all pairs. A scalar with
/// graph, in float32 at least.
///
/// `images` and `texts` (n, width) have rows of length 1, `logit_scale` is a scalar. The n²
/// similarities are never there at once: they are gone through in square tiles of `tile` rows, of
/// which the logarithms of the sums of rows and columns are kept, and made once more for the
/// gradient unless they are one tile (Cheng et al. 2024, "Breaking the memory barrier",
/// arXiv:2410.17243). In exact arithmetic the tile changes nothing.
at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const PairGroups& groups,
                            std::int64_t tile);

/// The same by other work than that which suits where the tensors lie.
at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const PairGroups& groups,
                            std::int64_t tile, PairWork work);

/// The tile that suits embeddings such as `x`, (n, width), where they lie. On a CPU larger ones are
/// quicker: it is the largest that takes no more memory than the embeddings and their gradients do,
/// from 128 to 512.
std::int64_t contrastive_tile(const at::Tensor& x);

/// For each row of `queries` (n, width) the row of `candidates` (m, width) with the largest
/// product, the first of equal ones; (n) int64, tile by tile, without graph.
at::Tensor nearest(const at::Tensor& queries, const at::Tensor& candidates, std::int64_t tile);

}  // namespace stages
