#include "stages/memory/memory_budget.h"

#include <algorithm>
#include <string>

#include "stages/memory/policy.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"

#ifdef RETORT_LIBTORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace stages {

runner::NamedBytes device_memory(c10::Device device) {
  return {device.is_cpu() ? "the machine's memory" : "the GPU's memory", MemoryMeter(device).available()};
}

std::optional<runner::NamedBytes> memory_budget(const MemoryPolicy& policy,
                                                const std::optional<runner::NamedBytes>& whole) {
  std::optional<runner::NamedBytes> smallest = whole;
  if (whole) {
    const auto share = static_cast<std::int64_t>(policy.memory_fraction * static_cast<double>(whole->bytes));
    if (share < whole->bytes) smallest = {"memory_fraction of " + whole->name, share};
  }
  if (policy.budget && (!smallest || *policy.budget < smallest->bytes))
    smallest = {policy.pointer.empty() ? "budget" : policy.pointer.substr(1) + ".budget", *policy.budget};
  return smallest;
}

std::int64_t memory_budget(const MemoryPolicy& policy, c10::Device device) {
  return memory_budget(policy, device_memory(device))->bytes;
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
