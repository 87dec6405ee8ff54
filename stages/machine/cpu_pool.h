#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <c10/core/Allocator.h>

#include "stages/machine/block_pool.h"

namespace stages {

/// Gives torch's CPU tensors their memory while it lives, by the rules of block_pool.h: what is let
/// go is kept for the next tensor, where malloc would return it to the kernel and fetch it page by
/// page again.
///
///   CpuPool pool;
///   CountingAllocator counter;      // stands on top, and finds it
///   run();
///   use(pool.reserved());           // and no more than that is resident for tensors
///
/// Only one thread makes and ends it, while nobody else makes tensors; in between any number may. A
/// tensor may outlive it. Blocks are aligned to 64 bytes. Where memory or the limit does not hold a
/// block, c10::OutOfMemoryError is thrown. After a fork the child has its own copy; it may allocate
/// if no other thread did at that moment.
class CpuPool {
 public:
  /// Throws std::logic_error where another allocator cannot be displaced, std::bad_alloc where the
  /// process may not have the addresses. `addresses`: bytes of them; 0: more than the machine has
  /// memory, as far as the process may.
  explicit CpuPool(std::int64_t addresses = 0);
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  /// The pool that `allocator` is; null: it is none.
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

  /// True if `data` points into it, whether memory is there or not.
  bool contains(const void* data) const;

 private:
  class Memory;
  const std::shared_ptr<Memory> memory_;
  c10::Allocator* const before_;
};

/// Marks this thread as none of a step's as long as it lives: a thread that reads ahead, say,
/// allocates when it happens to, and must not decide where the tensors of a step lie.
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
