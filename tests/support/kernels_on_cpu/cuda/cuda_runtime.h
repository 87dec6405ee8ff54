#pragma once

// The part of CUDA that Retort's kernels use, for compiling them as C++ for the CPU. What is not
// declared here, such as atomics, shuffles and dynamic shared memory, does not compile.

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(threads)
/// One block runs at a time, so all blocks can use the same memory.
#define __shared__ static

struct dim3 {
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}

  unsigned x, y, z;
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

using cudaStream_t = struct CUstream_st*;
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorLaunchFailure = 719,
};

namespace kernels_on_cpu {

/// Lets the running thread wait until all threads of its block wait. The line distinguishes
/// barriers.
void wait_at_barrier(int line);
/// Returns the error of the last launch and clears it.
cudaError_t take_error();
/// Returns the text of an error; for a launch failure, the fault.
const char* text_of(cudaError_t error);

}  // namespace kernels_on_cpu

// Inline, so that a program that also contains CUDA's functions does not confuse the two.
inline void __syncthreads(int line = __builtin_LINE()) { kernels_on_cpu::wait_at_barrier(line); }
inline cudaError_t cudaGetLastError() { return kernels_on_cpu::take_error(); }
inline const char* cudaGetErrorString(cudaError_t error) { return kernels_on_cpu::text_of(error); }
