#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <c10/core/Allocator.h>

#include "stages/machine/block_pool.h"

namespace stages {

/// Allocates torch's CPU tensors while this object lives, by the rules of block_pool.h. Freed
/// memory is kept for the next tensor; malloc would return it to the kernel and fault it in again
/// page by page.
///
///   CpuPool pool;
///   CountingAllocator counter;      // stands on top, and finds it
///   run();
///   use(pool.reserved());           // and no more than that is resident for tensors
///
/// Only one thread may create and destroy it, while no other thread allocates tensors; in between
/// any number may. A tensor may outlive it. Blocks are aligned to 64 bytes. Throws
/// c10::OutOfMemoryError if memory or the limit does not suffice for a block. After a fork the
/// child has its own copy; it may allocate if no other thread did at the time of the fork.
class CpuPool {
 public:
  /// Throws std::logic_error if the current allocator cannot be replaced, std::bad_alloc if the
  /// process may not reserve the addresses. `addresses`: bytes of address space; 0: more than the
  /// machine's memory, within the limits of the process.
  explicit CpuPool(std::int64_t addresses = 0);
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  /// `allocator` as a pool; null: it is none.
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

  /// True if `data` points into its addresses, whether or not memory is committed there.
  bool contains(const void* data) const;

 private:
  class Memory;
  const std::shared_ptr<Memory> memory_;
  c10::Allocator* const before_;
};

/// While it lives, marks this thread as not part of a step. For example, a thread that reads ahead
/// allocates at arbitrary times, and must not affect where the tensors of a step lie.
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
