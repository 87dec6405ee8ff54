#include "stages/contrastive/launch_pair_softmax.h"

#include <stdexcept>

#include <cuda_runtime.h>

namespace stages {
namespace {

constexpr int kThreads = 256;             // threads in a block that processes one row
constexpr int kColumns = 32, kRows = 16;  // threads in a block that processes kColumns columns

void check_launch() {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// Returns the sum of the values of a block's threads. Repeatedly adds the second half of the
/// values to the first half until one value is left.
template <typename T>
__device__ T sum_of_block(T mine) {
  __shared__ T parts[kThreads];
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  return parts[0];
}

/// Like sum_of_block(), for the running log sums of a block's threads.
template <typename T>
__device__ RunningLogSum<T> log_sum_of_block(RunningLogSum<T> mine) {
  __shared__ T largest[kThreads], sum[kThreads];
  largest[threadIdx.x] = mine.largest;
  sum[threadIdx.x] = mine.sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      mine.add({largest[threadIdx.x + half], sum[threadIdx.x + half]});
      largest[threadIdx.x] = mine.largest;
      sum[threadIdx.x] = mine.sum;
    }
    __syncthreads();
  }
  return {largest[0], sum[0]};
}

// One block processes one row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_rows(PairTile<T> tile, RightPairs<T> pairs, PairSums<T> sums) {
  const std::int64_t i = blockIdx.x, row = tile.row + i;
  const T factor = *tile.factor;
  RunningLogSum<T> mine;
  T right = 0;
  for (std::int64_t j = threadIdx.x; j < tile.columns; j += kThreads) {
    const T similarity = factor * tile.product(i, j);
    mine.add(similarity);
    right += pairs.share_of(row, tile.column + j) * similarity;
  }
  const RunningLogSum<T> all = log_sum_of_block(mine);
  const T all_right = sum_of_block(right);
  if (threadIdx.x != 0) return;
  RunningLogSum<T> so_far = sums.of_row(row);
  so_far.add(all);
  sums.set_row(row, so_far);
  sums.right[row] += all_right;
}

// Neighboring threads read neighboring columns; the threads assigned to a column divide its rows
// among them.
template <typename T>
__global__ void __launch_bounds__(kColumns* kRows) add_columns(PairTile<T> tile, PairSums<T> sums) {
  __shared__ T largest[kRows][kColumns], sum[kRows][kColumns];
  const std::int64_t j = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  const T factor = *tile.factor;
  RunningLogSum<T> mine;
  if (j < tile.columns) {
    for (std::int64_t i = threadIdx.y; i < tile.rows; i += kRows)
      mine.add(factor * tile.product(i, j));
  }
  largest[threadIdx.y][threadIdx.x] = mine.largest;
  sum[threadIdx.y][threadIdx.x] = mine.sum;
  __syncthreads();
  if (threadIdx.y != 0 || j >= tile.columns) return;
  RunningLogSum<T> so_far = sums.of_column(tile.column + j);
  for (int i = 0; i < kRows; ++i) so_far.add({largest[i][threadIdx.x], sum[i][threadIdx.x]});
  sums.set_column(tile.column + j, so_far);
}

// One block processes one row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    take_gradient(PairTile<T> tile, RightPairs<T> pairs, PairGradient<T> gradient) {
  const std::int64_t i = blockIdx.x, row = tile.row + i;
  const T factor = *tile.factor;
  T by_scale = 0;
  for (std::int64_t j = threadIdx.x; j < tile.columns; j += kThreads) {
    const std::int64_t column = tile.column + j;
    const T similarity = factor * tile.product(i, j);
    const T own = gradient.by_similarity(similarity, row, column, pairs.share_of(row, column));
    by_scale += own * similarity;
    tile.product(i, j) = own * factor;
  }
  const T all = sum_of_block(by_scale);
  if (threadIdx.x == 0) gradient.by_scale[row] += all;
}

}  // namespace

template <typename T>
void launch_pair_sums(const PairTile<T>& tile, const RightPairs<T>& right, const PairSums<T>& sums,
                      void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  add_rows<<<static_cast<unsigned>(tile.rows), kThreads, 0, cuda_stream>>>(tile, right, sums);
  check_launch();
  const auto blocks = static_cast<unsigned>((tile.columns + kColumns - 1) / kColumns);
  add_columns<<<blocks, dim3(kColumns, kRows), 0, cuda_stream>>>(tile, sums);
  check_launch();
}

template <typename T>
void launch_pair_gradient(const PairTile<T>& tile, const RightPairs<T>& right,
                          const PairGradient<T>& gradient, void* stream) {
  take_gradient<<<static_cast<unsigned>(tile.rows), kThreads, 0,
                  static_cast<cudaStream_t>(stream)>>>(tile, right, gradient);
  check_launch();
}

template void launch_pair_sums(const PairTile<float>&, const RightPairs<float>&,
                               const PairSums<float>&, void*);
template void launch_pair_sums(const PairTile<double>&, const RightPairs<double>&,
                               const PairSums<double>&, void*);
template void launch_pair_gradient(const PairTile<float>&, const RightPairs<float>&,
                                   const PairGradient<float>&, void*);
template void launch_pair_gradient(const PairTile<double>&, const RightPairs<double>&,
                                   const PairGradient<double>&, void*);

}  // namespace stages
