#pragma once

#include "stages/train/contrastive_loss.h"

namespace stages {

/// contrastive_loss() of tensors of one type, float32 or float64, in the form that a GPU takes: the products of one
/// tile after another lie in one buffer of tile² elements, and the kernels of launch_pair_softmax.h write the gradients
/// over them. On a CPU the same lines run an element after another, which is slow; on the Meta device nothing runs.
at::Tensor contrastive_loss_in_place(const at::Tensor& images, const at::Tensor& texts, const at::Tensor& logit_scale,
                                     const PairGroups& groups, std::int64_t tile);

/// Whether contrastive_loss() takes this form where `x` lies, or is planned to: on a GPU, if this program has kernels
/// or could not use one anyway.
bool takes_contrastive_kernels(const at::Tensor& x);

}  // namespace stages
