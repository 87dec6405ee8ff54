#include "stages/machine/gpu.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#ifdef RETORT_LIBTORCH_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
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

namespace {

class CudaGraph final : public Graph {
 public:
  CudaGraph(c10::Device gpu, const std::function<void()>& queue) {
    const c10::cuda::CUDAGuard on_gpu(gpu);
    c10::cuda::device_synchronize();  // libraries that begin to use the new stream expect it to be
                                      // idle
    const c10::cuda::CUDAStreamGuard on_own_stream(
        c10::cuda::getStreamFromPool(/*isHighPriority=*/false, gpu.index()));
    const c10::MempoolId_t pool = at::cuda::graph_pool_handle();
    // Other threads, such as those that read batches, may allocate pinned memory meanwhile.
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      queue();
    } catch (...) {
      abandon(gpu, pool);
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  void abandon(c10::Device gpu, c10::MempoolId_t pool) {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {  // the failure has already ended the recording
      c10::cuda::CUDACachingAllocator::endAllocateToPool(gpu.index(), pool);
      c10::cuda::CUDACachingAllocator::releasePool(gpu.index(), pool);
    }
  }

  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<Graph> capture(c10::Device gpu, const std::function<void()>& queue) {
  return std::make_unique<CudaGraph>(gpu, queue);
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
std::unique_ptr<Graph> capture(c10::Device, const std::function<void()>&) { refuse(); }

#endif

}  // namespace stages::gpu
