#include "tests/stages/cuda/dropout_twins.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// A copy in the GPU's memory, freed with the object.
class DeviceCopy {
 public:
  DeviceCopy(const void* host, std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&data_, bytes));
    check(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice));
  }
  ~DeviceCopy() { cudaFree(data_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  void* data() const { return data_; }
  std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> host(bytes_);
    check(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  const std::size_t bytes_;
  void* data_ = nullptr;
};

float wide(float x) { return x; }
double wide(double x) { return x; }
float wide(__half x) { return __half2float(x); }
float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
std::vector<T> waves(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(std::sin(0.37f * static_cast<float>(i)));
  return values;
}

template <typename T>
std::vector<unsigned char> bytes_of(const std::vector<T>& values) {
  std::vector<unsigned char> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Calls `use` with waves() of the given type.
template <typename Use>
std::vector<unsigned char> in_type(stages::FloatType type, std::size_t count, const Use& use) {
  switch (type) {
    case stages::FloatType::kFloat32:
      return use(waves<float>(count));
    case stages::FloatType::kFloat64:
      return use(waves<double>(count));
    case stages::FloatType::kFloat16:
      return use(waves<__half>(count));
    case stages::FloatType::kBFloat16:
      return use(waves<__nv_bfloat16>(count));
  }
  return {};
}

}  // namespace

std::vector<unsigned char> dropout_on_gpu(const stages::DropoutMask& mask, stages::FloatType type,
                                          std::int64_t step,
                                          const std::vector<std::int64_t>& samples,
                                          std::int64_t width) {
  const auto rows = static_cast<std::int64_t>(samples.size());
  return in_type(type, samples.size() * static_cast<std::size_t>(width), [&](const auto& x) {
    const DeviceCopy in_place(x.data(), x.size() * sizeof x[0]);
    const DeviceCopy numbers(samples.data(), samples.size() * sizeof samples[0]);
    const DeviceCopy at_step(&step, sizeof step);
    stages::launch_dropout(mask, type, in_place.data(), in_place.data(),
                           static_cast<const std::int64_t*>(at_step.data()),
                           static_cast<const std::int64_t*>(numbers.data()), rows, width, nullptr);
    check(cudaDeviceSynchronize());
    return in_place.bytes();
  });
}

std::vector<unsigned char> dropout_on_cpu(const stages::DropoutMask& mask, stages::FloatType type,
                                          std::int64_t step,
                                          const std::vector<std::int64_t>& samples,
                                          std::int64_t width) {
  return in_type(type, samples.size() * static_cast<std::size_t>(width), [&](auto x) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t element = i % static_cast<std::size_t>(width),
                        row = i / static_cast<std::size_t>(width);
      const std::size_t drawn = mask.unit == stages::DropoutUnit::kElement ? element : 0;
      const stages::PhiloxWords words =
          mask.words(static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(samples[row]),
                     static_cast<std::uint32_t>(drawn / 4));
      using Wide = decltype(wide(x[i]));
      x[i] = words.word[drawn % 4] < mask.threshold()
                 ? 0.0f
                 : wide(x[i]) * static_cast<Wide>(mask.scale());
    }
    return bytes_of(x);
  });
}
