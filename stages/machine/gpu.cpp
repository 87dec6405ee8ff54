#include "stages/machine/gpu.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#ifdef RETORT_LIBTORCH_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace stages::gpu {

#ifdef RETORT_LIBTORCH_CUDA

bool is_supported() { return true; }

Properties properties(c10::Device gpu) {
  const auto& card = *at::cuda::getDeviceProperties(gpu.index());
  Properties properties{
      .model = card.name,
      .memory_bytes = static_cast<std::int64_t>(card.totalGlobalMem),
      .capability = std::to_string(card.major) + "." + std::to_string(card.minor)};
  static_assert(sizeof card.uuid.bytes == sizeof properties.uuid);
  std::memcpy(properties.uuid.data(), card.uuid.bytes, sizeof card.uuid.bytes);
  return properties;
}

c10::DeviceAllocator& allocator() { return *c10::cuda::CUDACachingAllocator::get(); }

double memory_share(c10::Device gpu) {
  return c10::cuda::CUDACachingAllocator::getMemoryFraction(gpu.index());
}

void set_memory_share(double share, c10::Device gpu) {
  c10::cuda::CUDACachingAllocator::setMemoryFraction(share, gpu.index());
}

void track_allocations(
    std::function<void(const c10::CachingDeviceAllocator::TraceEntry&)> tracker) {
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(std::move(tracker));
}

#else

namespace {

[[noreturn]] void refuse() {
  throw std::logic_error("this program was built without CUDA support");
}

}  // namespace

bool is_supported() { return false; }
Properties properties(c10::Device) { refuse(); }
c10::DeviceAllocator& allocator() { refuse(); }
double memory_share(c10::Device) { refuse(); }
void set_memory_share(double, c10::Device) { refuse(); }
void track_allocations(std::function<void(const c10::CachingDeviceAllocator::TraceEntry&)>) {
  refuse();
}

#endif

}  // namespace stages::gpu
