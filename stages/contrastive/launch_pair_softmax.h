#pragma once

#include "stages/contrastive/pair_softmax.h"

namespace stages {

// Kernels on the current GPU, enqueued on `stream` (a cudaStream_t) without waiting for it. T is
// float or double; all memory lies on that GPU; a tile has at least one element. The order of every
// sum depends only on the tile's shape, so the same numbers give the same bits. Both functions
// throw std::runtime_error with CUDA's message.

/// Adds the similarities of `tile` to the sums of its rows and of its columns.
template <typename T>
void launch_pair_sums(const PairTile<T>& tile, const RightPairs<T>& right, const PairSums<T>& sums,
                      void* stream);

/// Overwrites the products of `tile` with the loss's gradients by them, and adds to
/// gradient.by_scale.
template <typename T>
void launch_pair_gradient(const PairTile<T>& tile, const RightPairs<T>& right,
                          const PairGradient<T>& gradient, void* stream);

}  // namespace stages
