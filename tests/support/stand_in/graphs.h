#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <c10/core/Stream.h>

#include "stages/machine/gpu.h"

namespace stand_in {

/// The kernels that a stream records. Each kernel also runs while it is recorded, so that its
/// results have shapes, but its writes to memory outside the graph's pool are undone at the end.
class Recording {
 public:
  explicit Recording(c10::Stream stream) : stream_(stream) {}

  c10::Stream stream() const { return stream_; }
  /// Adds a kernel, which computes on the memory that it has used so far.
  void add(std::function<void()> kernel) { kernels_.push_back(std::move(kernel)); }
  /// Notes that a kernel is about to use the block at `data`.
  void use(const void* data, std::size_t bytes, bool writes);
  /// Undoes what the kernels have written outside of the pool.
  void undo();

  /// Runs the kernels. Reports a fault if memory that they use has been freed.
  void run(c10::Device gpu) const;

 private:
  bool is_in_pool(const void* data) const;

  const c10::Stream stream_;
  std::vector<std::function<void()>> kernels_;
  std::map<const void*, bool> uses_;  // whether a kernel writes
  std::map<const void*, std::vector<char>> before_;
};

/// Returns the recording of the current stream of this thread; null if there is none.
Recording* recording();

/// Throws c10::Error if the current stream is recording, during which `what` is impossible.
void refuse_while_recording(const char* what);

}  // namespace stand_in
