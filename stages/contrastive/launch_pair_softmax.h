#pragma once

#include "stages/contrastive/pair_softmax.h"

namespace stages {

// These functions enqueue kernels on `stream` (a cudaStream_t) of the current GPU and do not wait
// for them. T is float or double; all pointers refer to memory of that GPU; a tile has at least one
// element. The order of every sum depends only on the tile's shape, so equal inputs yield bitwise
// equal results. Both functions throw std::runtime_error with CUDA's message.

/// Adds the similarities of `tile` to the sums of its rows and of its columns.
template <typename T>
void launch_pair_sums(const PairTile<T>& tile, const RightPairs<T>& right, const PairSums<T>& sums,
                      void* stream);

/// Overwrites the products of `tile` with the gradients of the loss with respect to them, and adds
/// to gradient.by_scale.
template <typename T>
void launch_pair_gradient(const PairTile<T>& tile, const RightPairs<T>& right,
                          const PairGradient<T>& gradient, void* stream);

}  // namespace stages
