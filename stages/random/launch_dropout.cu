#include "stages/random/launch_dropout.h"

#include <algorithm>
#include <stdexcept>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace stages {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1 << 16;  // thread blocks; they loop over the rest

__device__ float scaled(float x, double scale) { return x * static_cast<float>(scale); }
__device__ double scaled(double x, double scale) { return x * scale; }
__device__ __half scaled(__half x, double scale) {
  return __float2half_rn(scaled(__half2float(x), scale));
}
__device__ __nv_bfloat16 scaled(__nv_bfloat16 x, double scale) {
  return __float2bfloat16_rn(scaled(__bfloat162float(x), scale));
}

// Each thread computes the four words for four consecutive elements of a row.
template <typename T>
__global__ void apply(DropoutMask mask, const T* x, T* y, const std::int64_t* step,
                      const std::int64_t* samples, std::int64_t rows, std::int64_t width) {
  const std::int64_t blocks = (width + 3) / 4;  // per row
  const auto number = static_cast<std::uint32_t>(*step);
  const std::uint64_t threshold = mask.threshold();
  const double scale = mask.scale();
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < rows * blocks;
       i += std::int64_t{gridDim.x} * kThreads) {
    const std::int64_t row = i / blocks, block = i % blocks;
    const bool each = mask.unit == DropoutUnit::kElement;
    const PhiloxWords words = mask.words(number, static_cast<std::uint32_t>(samples[row]),
                                         each ? static_cast<std::uint32_t>(block) : 0);
    for (int j = 0; j < 4 && 4 * block + j < width; ++j) {
      const std::int64_t element = row * width + 4 * block + j;
      y[element] = words.word[each ? j : 0] < threshold ? T(0.0f) : scaled(x[element], scale);
    }
  }
}

template <typename T>
void launch(const DropoutMask& mask, const void* x, void* y, const std::int64_t* step,
            const std::int64_t* samples, std::int64_t rows, std::int64_t width,
            cudaStream_t stream) {
  const std::int64_t threads = rows * ((width + 3) / 4);
  const auto blocks =
      static_cast<unsigned>(std::min((threads + kThreads - 1) / kThreads, kMostBlocks));
  apply<<<blocks, kThreads, 0, stream>>>(mask, static_cast<const T*>(x), static_cast<T*>(y), step,
                                         samples, rows, width);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

}  // namespace

void launch_dropout(const DropoutMask& mask, FloatType type, const void* x, void* y,
                    const std::int64_t* step, const std::int64_t* samples, std::int64_t rows,
                    std::int64_t width, void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  switch (type) {
    case FloatType::kFloat32:
      return launch<float>(mask, x, y, step, samples, rows, width, cuda_stream);
    case FloatType::kFloat64:
      return launch<double>(mask, x, y, step, samples, rows, width, cuda_stream);
    case FloatType::kFloat16:
      return launch<__half>(mask, x, y, step, samples, rows, width, cuda_stream);
    case FloatType::kBFloat16:
      return launch<__nv_bfloat16>(mask, x, y, step, samples, rows, width, cuda_stream);
  }
}

}  // namespace stages
