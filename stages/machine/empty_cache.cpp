#include "stages/machine/empty_cache.h"

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"

#ifdef RETORT_LIBTORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace stages {
namespace {

CpuPool* counted_pool(c10::Device device) {
  auto* const counter = device.is_cpu() ? CountingAllocator::innermost() : nullptr;
  return counter ? counter->pool() : nullptr;
}

}  // namespace

bool has_cache(c10::Device device) {
#ifdef RETORT_LIBTORCH_CUDA
  if (device.is_cuda()) return true;
#endif
  return counted_pool(device) != nullptr;
}

void empty_cache(c10::Device device) {
  if (CpuPool* const pool = counted_pool(device)) pool->empty_cache();
#ifdef RETORT_LIBTORCH_CUDA
  if (device.is_cuda() && c10::cuda::CUDACachingAllocator::get()->initialized())
    c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

}  // namespace stages
