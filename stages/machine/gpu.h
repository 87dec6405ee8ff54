#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

/// The functions that Retort needs from GPUs in addition to what torch offers for every kind of
/// device. gpu.cpp implements them with LibTorch's CUDA support. A program that links another
/// implementation uses other GPUs, as the tests in tests/support/stand_in do.
namespace stages::gpu {

/// A GPU, as its driver describes it.
struct Properties {
  std::string model;              ///< such as "NVIDIA L4"
  std::int64_t memory_bytes = 0;  ///< all of its memory
  std::string capability;         ///< such as "8.9"
  std::array<std::int64_t, 2> uuid = {};
};

/// True if this program was built with LibTorch's CUDA support. Without it, there is no GPU, and
/// the functions below throw std::logic_error.
bool is_supported();

/// Throws c10::Error if there is no such GPU.
Properties properties(c10::Device gpu);

/// Returns the caching allocator of all GPUs. Its statistics for a GPU exist once it is
/// initialized.
c10::DeviceAllocator& allocator();

/// The share of a GPU's memory that the allocator may reserve. Setting it requires an initialized
/// allocator. Throws c10::Error after a fatal error of the GPU.
double memory_share(c10::Device gpu);
void set_memory_share(double share, c10::Device gpu);

/// Calls `tracker` for every event of the allocator, on any thread, until the process ends.
void track_allocations(std::function<void(const c10::CachingDeviceAllocator::TraceEntry&)> tracker);

/// Work that a GPU has recorded and can run again, as one launch (a CUDA graph).
class Graph {
 public:
  virtual ~Graph() = default;
  /// Queues the work on the current stream. It reads and writes the memory with which it was
  /// recorded, even if the tensors there have been freed.
  virtual void replay() = 0;
};

/// Records the work that `queue` queues on the current stream of `gpu`, and does not run it. Memory
/// that `queue` allocates comes from the graph's own pool. It stays reserved until the graph is
/// destroyed, even if it is freed earlier: a replay uses it again. A tensor that outlives `queue`
/// is in the same place after each replay. `queue` must not wait for the GPU, or copy from or to
/// the host. Throws what `queue` throws, and c10::Error if the work cannot be recorded.
std::unique_ptr<Graph> capture(c10::Device gpu, const std::function<void()>& queue);

}  // namespace stages::gpu
