#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include "stages/tensor/step_phase.h"

namespace stages {

class CpuPool;

/// A block of memory that is alive.
struct LiveBlock {
  const void* data = nullptr;
  std::int64_t bytes = 0;
  StepPhase phase{};  ///< in which it was taken
};

/// A block that was not given, and what was alive at that moment.
struct RefusedBlock {
  std::int64_t tried = 0, live = 0;  ///< bytes
  std::int64_t taken =
      0;  ///< bytes that count against a limit: those that are live, or that a pool reserves
  std::int64_t wanted = 0;  ///< bytes: the smallest limit under which it would have been given
  std::optional<std::int64_t>
      limit;  ///< bytes; nullopt: it was not for the limit that it was refused
  StepPhase phase{};
  std::vector<LiveBlock> alive;  ///< the oldest first
};

/// Counts the CPU memory of tensors while it lives, in bytes as asked for, and holds it to a limit:
///
///   CountingAllocator counter;
///   counter.set_limit(64 << 20);
///   run();                          // throws c10::OutOfMemoryError beyond 64 MiB
///   use(counter.peak_bytes());
///
/// It stands before the allocator that torch's CPU tensors came from, and takes each block from
/// that one. Where that is a CpuPool, the limit is the pool's, and is one for what it reserves.
/// Scopes may be nested; an inner one counts for itself and for the outer ones. Only one thread
/// makes and ends scopes, while nobody else makes tensors; in between any number may, and may call
/// what is here. A tensor may outlive it, and is then no longer counted; one that is older is never
/// counted. What torch takes past its allocator (its own small objects, a few of LAPACK's
/// workspaces) is not seen.
class CountingAllocator {
 public:
  static constexpr std::int64_t kHeadBytes = 128;  ///< taken with each block, before its data

  /// Throws std::logic_error where another allocator cannot be displaced.
  CountingAllocator();
  ~CountingAllocator();
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  /// The one that was made last and still lives; null where there is none.
  static CountingAllocator* innermost();

  /// The pool that the blocks are from; null: it is none.
  CpuPool* pool() const;

  std::int64_t live_bytes() const;
  std::int64_t peak_bytes()
      const;  ///< the most that was live at once since the start or restart_peak()
  std::int64_t allocations() const;      ///< blocks taken, those of no bytes left out
  std::int64_t refusals() const;         ///< blocks that were not given
  std::vector<LiveBlock> alive() const;  ///< the oldest first
  /// From here on the peak is of what follows.
  void restart_peak();
  /// The most that was live at once since the last call of this; a mark of its own, for
  /// MemoryMeter.
  std::int64_t take_peak();

  /// From now on a block with which more than so many bytes would be live, or reserved by the pool,
  /// is refused with c10::OutOfMemoryError; what is live stays. nullopt: none is.
  void set_limit(std::optional<std::int64_t> bytes);
  std::optional<std::int64_t> limit() const;

  /// What was refused last; nullopt: nothing was since the last call of take_refused().
  std::optional<RefusedBlock> refused() const;
  /// What was refused last, which is then forgotten; nullopt: nothing was since the last call.
  std::optional<RefusedBlock> take_refused();

  /// For tests: of the blocks asked for from now on the `nth`, counted from 1, is refused with
  /// c10::OutOfMemoryError, once. 0: none is.
  void refuse(std::int64_t nth);
  /// True if the block to be refused has not been asked for yet.
  bool will_refuse() const;

 private:
  class Counter;
  Counter* const counter_;
};

/// False where unused blocks of `device`'s memory are not kept: a CPU's tensors are from malloc.
bool has_cache(c10::Device device);

/// Returns the unused blocks of `device`'s allocator to the driver, or on a CPU to the system,
/// where it keeps any.
void empty_cache(c10::Device device);

}  // namespace stages
