#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/contrastive/contrastive_loss.h"

namespace stages {

/// Returns the sigmoid loss of n image-caption pairs (Zhai et al. 2023, arXiv:2303.15343). Each
/// image is compared with each text independently: with the logits
/// x = exp(logit_scale) · images · textsᵀ + logit_bias, the loss is the sum of -log σ(x) over the
/// texts that match an image and of -log σ(-x) over all others, divided by n. All texts of a group
/// match the group's images, with a weight of 1 each. The loss is a differentiable scalar in
/// float32 or wider.
///
/// The rows of `images` and `texts` (n, width) have an L2 norm of 1; `logit_scale` and `logit_bias`
/// are scalars. The n² logits are never in memory all at once: they are computed in square tiles of
/// `tile` rows, once for the loss and once for its gradient. In exact arithmetic the tile size does
/// not change the result.
at::Tensor sigmoid_loss(const at::Tensor& images, const at::Tensor& texts,
                        const at::Tensor& logit_scale, const at::Tensor& logit_bias,
                        const PairGroups& groups, std::int64_t tile);

}  // namespace stages
