#include "tests/support/kernels_on_cpu/faulty_kernel.h"

#include <stdexcept>

#include <cuda_runtime.h>

namespace {

struct Numbers {
  float all[kReversed];
};

__global__ void reverse(const float* x, float* y, Mistake mistake) {
  __shared__ float part[kReversed];
  const auto is = [mistake](Mistake one) { return mistake == one; };
  const unsigned last = kReversed - 1, i = threadIdx.x, element = blockIdx.x * kReversed + i;
  const unsigned reversed = is(Mistake::kReadsBeyondShared) ? kReversed - i : last - i;
  if (is(Mistake::kReturnsBeforeBarrier) && i == 5) return;
  if (!is(Mistake::kReadsUnwrittenShared) || i != 3 || blockIdx.x == 0)
    part[i] = x[is(Mistake::kReadsBeyondInput) ? element + 1 : element];
  if (is(Mistake::kCopiesBeyondInput) && i == last)
    *reinterpret_cast<Numbers*>(part) = *reinterpret_cast<const Numbers*>(x + element);
  if (is(Mistake::kTwoBarriers) && i % 2 == 1) __syncthreads();
  else if (!is(Mistake::kNoBarrier)) __syncthreads();
  const float mine = part[reversed];
  if (is(Mistake::kNoBarrierBeforeReuse) && i == last) part[i] += mine;
  if (is(Mistake::kReadsOutput)) y[element] += mine;
  else if (is(Mistake::kWritesBeyondOutput)) y[element + 1] = mine;
  else if (is(Mistake::kBlocksWriteOneElement) && i == 0) y[0] = mine;
  else y[element] = mine;
  if (is(Mistake::kBlocksReadOneElement)) y[element] += y[i];
}

}  // namespace

void reverse_blocks(const float* x, float* y, unsigned blocks, Mistake mistake) {
  reverse<<<blocks, kReversed>>>(x, y, mistake);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
