#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stages/machine/counting_allocator.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// Records the memory that tensors on a device allocate and free while real work runs, on any
/// thread, in the form that a MemoryTrace uses for a dry run:
///
///   BlockRecording recording(device);
///   const std::size_t begin = recording.place();
///   step(*network);
///   use(recording.since(begin));
///
/// On a CPU, it observes the innermost CountingAllocator, which must exist; on a GPU, LibTorch's
/// allocator. A process may have at most one live recording.
class BlockRecording final : public BlockObserver {
 public:
  /// Throws std::logic_error if allocations on `device` cannot be observed.
  explicit BlockRecording(c10::Device device);
  ~BlockRecording() override;
  BlockRecording(const BlockRecording&) = delete;
  BlockRecording& operator=(const BlockRecording&) = delete;

  /// Sets the owner of a live tensor's memory. Memory allocated before the recording is ignored.
  void own(const at::Tensor& tensor, Owner owner, std::string name);

  /// Returns the number of events so far.
  std::size_t place() const;
  /// Returns the events since `place`, except frees of memory allocated before it.
  RecordedWork since(std::size_t place) const;
  /// Returns the storages allocated during this recording that are still live, oldest first.
  std::vector<TracedStorage> alive() const;

  void born(const void* data, std::int64_t bytes, StepPhase phase) override;
  void died(const void* data) override;

 private:
  const c10::Device device_;
  CountingAllocator* const counter_;  // null on a GPU
  mutable std::mutex mutex_;
  RecordedWork work_;
  std::unordered_map<const void*, std::size_t> alive_;  // index of each storage by address
};

}  // namespace stages
