#pragma once

#include <atomic>
#include <cstdint>

#include <c10/core/Allocator.h>

namespace stages {

/// Counts the CPU memory of tensors while it lives, in bytes as asked for:
///
///   CountingAllocator counter;
///   run();
///   use(counter.peak_bytes());
///
/// It stands before the allocator that torch's CPU tensors came from, and takes each block from that one. Scopes may be
/// nested; an inner one counts for itself and for the outer ones. Only one thread makes and ends scopes, while nobody
/// else makes tensors; in between any number may. A tensor may outlive it, and is then no longer counted; one that is
/// older is never counted. What torch takes past its allocator (workspaces of oneDNN, its own small objects) is not
/// seen.
class CountingAllocator {
 public:
  /// Throws std::logic_error where another allocator cannot be displaced.
  CountingAllocator();
  ~CountingAllocator();
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  std::int64_t live_bytes() const;
  std::int64_t peak_bytes() const;   ///< the most that was live at once since the start or restart_peak()
  std::int64_t allocations() const;  ///< blocks taken, those of no bytes left out
  /// From here on the peak is of what follows.
  void restart_peak();

  /// For tests: of the blocks asked for from now on the `nth`, counted from 1, is refused with c10::OutOfMemoryError,
  /// once. 0: none is.
  void refuse(std::int64_t nth);
  /// True if the block to be refused has not been asked for yet.
  bool will_refuse() const;

 private:
  class Counter;
  Counter* const counter_;
};

}  // namespace stages
