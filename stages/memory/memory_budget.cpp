#include "stages/memory/memory_budget.h"

#include <algorithm>

#include "stages/memory/policy.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"

#ifdef RETORT_LIBTORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace stages {

std::int64_t memory_budget(const MemoryPolicy& policy, c10::Device device) {
  const std::int64_t all = MemoryMeter(device).available();
  const auto share = static_cast<std::int64_t>(policy.memory_fraction * static_cast<double>(all));
  return std::min(policy.budget.value_or(share), share);
}

ScopedMemoryBudget::ScopedMemoryBudget(std::int64_t bytes, c10::Device device) : device_(device) {
  if (device.is_cpu()) {
    if (auto* const allocator = CountingAllocator::innermost()) {
      bytes_before_ = allocator->limit();
      allocator->set_limit(bytes);
    }
  }
#ifdef RETORT_LIBTORCH_CUDA
  if (device.is_cuda()) {
    using namespace c10::cuda::CUDACachingAllocator;
    const auto all = static_cast<double>(MemoryMeter(device).available());
    share_before_ = getMemoryFraction(device.index());
    setMemoryFraction(std::min(static_cast<double>(bytes) / all, 1.0), device.index());
  }
#endif
}

ScopedMemoryBudget::~ScopedMemoryBudget() {
  if (device_.is_cpu()) {
    if (auto* const allocator = CountingAllocator::innermost()) allocator->set_limit(bytes_before_);
  }
#ifdef RETORT_LIBTORCH_CUDA
  if (device_.is_cuda()) c10::cuda::CUDACachingAllocator::setMemoryFraction(share_before_, device_.index());
#endif
}

}  // namespace stages
