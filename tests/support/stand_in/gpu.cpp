// The stand-in's answers to Retort's queries about GPUs.

#include "stages/machine/gpu.h"

#include <utility>

#include "tests/support/stand_in/card_allocator.h"

namespace stages::gpu {

bool is_supported() { return true; }

Properties properties(c10::Device gpu) {
  TORCH_CHECK(gpu.index() >= 0 && gpu.index() < stand_in::kCards, "there is no ", gpu);
  return {.model = "stand-in",
          .memory_bytes = stand_in::CardAllocator::kBytes,
          .capability = "9.0",
          .uuid = {gpu.index(), 0}};
}

c10::DeviceAllocator& allocator() { return stand_in::card_allocator(); }
double memory_share(c10::Device gpu) { return stand_in::card_allocator().share(gpu.index()); }
void set_memory_share(double share, c10::Device gpu) {
  stand_in::card_allocator().set_share(share, gpu.index());
}
void track_allocations(
    std::function<void(const c10::CachingDeviceAllocator::TraceEntry&)> tracker) {
  stand_in::card_allocator().track(std::move(tracker));
}

}  // namespace stages::gpu
