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

/// Records the memory that tensors of a device take and give back while real work is done, on any
/// thread, as a MemoryTrace records a dry run:
///
///   BlockRecording recording(device);
///   const std::size_t begin = recording.place();
///   step(*network);
///   use(recording.since(begin));
///
/// On a CPU it listens to the innermost CountingAllocator, of which there must be one, on a GPU to
/// LibTorch's allocator. At most one lives in a process.
class BlockRecording final : public BlockObserver {
 public:
  /// Throws std::logic_error if nothing can be recorded.
  explicit BlockRecording(c10::Device device);
  ~BlockRecording() override;
  BlockRecording(const BlockRecording&) = delete;
  BlockRecording& operator=(const BlockRecording&) = delete;

  /// Says who owns a living tensor's memory. Memory that was taken before the recording is ignored.
  void own(const at::Tensor& tensor, Owner owner, std::string name);

  /// The number of events so far.
  std::size_t place() const;
  /// The events since a place; deaths of what was born before it are left out.
  RecordedWork since(std::size_t place) const;
  /// What was born in this recording and is alive, oldest first.
  std::vector<TracedStorage> alive() const;

  void born(const void* data, std::int64_t bytes, StepPhase phase) override;
  void died(const void* data) override;

 private:
  const c10::Device device_;
  CountingAllocator* const counter_;  // of a CPU
  mutable std::mutex mutex_;
  RecordedWork work_;
  std::unordered_map<const void*, std::size_t> alive_;  // index of the storage by its address
};

}  // namespace stages
