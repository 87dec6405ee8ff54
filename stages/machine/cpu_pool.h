#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <c10/core/Allocator.h>

#include "stages/machine/block_pool.h"

namespace stages {

/// While this object lives, allocates torch's CPU tensors by the rules in block_pool.h. Freed
/// memory is kept for later tensors; malloc would return it to the kernel and fault it in again
/// page by page.
///
///   CpuPool pool;
///   CountingAllocator counter;      // finds the pool and wraps it
///   run();
///   use(pool.reserved());           // tensors keep at most this much resident
///
/// It must be created and destroyed by one thread, while no other thread allocates tensors; in
/// between, any number of threads may allocate. A tensor may outlive the pool. Blocks are aligned
/// to 64 bytes. An allocation throws c10::OutOfMemoryError if memory has run out or the limit is
/// too low. After a fork, the child has its own copy of the pool; it may allocate if no other
/// thread was allocating at the time of the fork.
class CpuPool {
 public:
  /// `addresses` is the size of the address space in bytes; 0: more than the machine's memory,
  /// within the process's limits. Throws std::logic_error if the current allocator cannot be
  /// replaced, and std::bad_alloc if the process is not allowed to reserve the address space.
  explicit CpuPool(std::int64_t addresses = 0);
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  /// Returns `allocator` as a pool; null if it is not a pool.
  static CpuPool* of(c10::Allocator* allocator);

  std::int64_t allocated() const;
  std::int64_t reserved() const;
  std::int64_t reserved(Lane lane) const;
  std::int64_t peak_reserved() const;
  std::int64_t retries() const;
  void empty_cache();
  void set_limit(std::optional<std::int64_t> bytes);
  std::optional<std::int64_t> limit() const;
  std::int64_t wanted_limit() const;

  /// True if `data` is in the pool's address space, whether or not memory is committed there.
  bool contains(const void* data) const;

 private:
  class Memory;
  const std::shared_ptr<Memory> memory_;
  c10::Allocator* const before_;
};

/// While this object lives, marks this thread as not part of a step. For example, a thread that
/// reads ahead allocates at unpredictable times, and must not affect the addresses of a step's
/// tensors.
class [[nodiscard]] ScopedLaneBeside {
 public:
  ScopedLaneBeside();
  ~ScopedLaneBeside();
  ScopedLaneBeside(const ScopedLaneBeside&) = delete;
  ScopedLaneBeside& operator=(const ScopedLaneBeside&) = delete;

 private:
  const Lane before_;
};

}  // namespace stages
