#include "tests/stages/cuda/row_norms.h"

#include <array>
#include <stdexcept>

#include <cuda_runtime.h>

namespace {

constexpr unsigned kThreads = 128;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// Device memory for `count` floats, freed with the object.
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count) : bytes_(count * sizeof(float)) {
    check(cudaMalloc(&data_, bytes_));
  }
  ~DeviceFloats() { cudaFree(data_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* data() const { return static_cast<float*>(data_); }
  void fill_from(const float* host) {
    check(cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice));
  }
  void copy_to(float* host) const {
    check(cudaMemcpy(host, data_, bytes_, cudaMemcpyDeviceToHost));
  }

 private:
  const std::size_t bytes_;
  void* data_ = nullptr;
};

// One block processes one row. Each thread sums its own columns; then the second half of the sums
// is repeatedly added to the first until one number is left. The products are rounded before they
// are added (no fused multiply-add), so that the CPU's twin can do the same.
__global__ void squared_row_norms(const float* values, std::size_t width, float* norms) {
  __shared__ float partial[kThreads];
  const float* row = values + blockIdx.x * width;
  float sum = 0;
  for (std::size_t column = threadIdx.x; column < width; column += kThreads) {
    sum = __fadd_rn(sum, __fmul_rn(row[column], row[column]));
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      partial[threadIdx.x] = __fadd_rn(partial[threadIdx.x], partial[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) norms[blockIdx.x] = partial[0];
}

}  // namespace

std::string no_gpu_because() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return count == 0 ? "there is no GPU" : "";
}

std::vector<float> squared_row_norms_on_gpu(const std::vector<float>& values, std::size_t width) {
  std::vector<float> norms(values.size() / width);
  if (norms.empty()) return norms;
  DeviceFloats device_values(values.size()), device_norms(norms.size());
  device_values.fill_from(values.data());
  squared_row_norms<<<static_cast<unsigned>(norms.size()), kThreads>>>(device_values.data(), width,
                                                                       device_norms.data());
  check(cudaGetLastError());
  device_norms.copy_to(norms.data());
  return norms;
}

std::vector<float> squared_row_norms_on_cpu(const std::vector<float>& values, std::size_t width) {
  std::vector<float> norms(values.size() / width);
  for (std::size_t row = 0; row < norms.size(); ++row) {
    std::array<float, kThreads> partial{};
    for (std::size_t column = 0; column < width; ++column) {
      const float value = values[row * width + column];
      const volatile float square = value * value;  // volatile: rounded, so that nothing is fused
      partial[column % kThreads] += square;
    }
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
      for (unsigned i = 0; i < half; ++i) partial[i] += partial[i + half];
    }
    norms[row] = partial[0];
  }
  return norms;
}
