#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <c10/core/Stream.h>

#include "stages/machine/gpu.h"

namespace stand_in {

/// The kernels that a stream records. A kernel runs when it is recorded, since its results have
/// shapes, but what it writes to memory outside of the graph's pool is undone in the end.
class Recording {
 public:
  explicit Recording(c10::Stream stream) : stream_(stream) {}

  c10::Stream stream() const { return stream_; }
  /// Adds a kernel, which computes on the memory that it has used so far.
  void add(std::function<void()> kernel) { kernels_.push_back(std::move(kernel)); }
  /// Notes that a kernel uses the block at `data`, before it does.
  void use(const void* data, std::size_t bytes, bool writes);
  /// Undoes what the kernels have written outside of the pool.
  void undo();

  /// Runs the kernels. Reports a fault if memory of theirs has been freed.
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

/// Throws c10::Error if the current stream records: `what` is impossible then.
void refuse_while_recording(const char* what);

}  // namespace stand_in
