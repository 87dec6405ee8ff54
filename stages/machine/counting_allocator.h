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

/// A live block of memory.
struct LiveBlock {
  const void* data = nullptr;
  std::int64_t bytes = 0;
  StepPhase phase{};  ///< in which it was allocated
};

/// A refused block, and what was live at that moment.
struct RefusedBlock {
  std::int64_t tried = 0, live = 0;  ///< bytes
  std::int64_t taken =
      0;  ///< bytes that count against a limit: live bytes or, for a pool, reserved bytes
  std::int64_t wanted = 0;  ///< bytes: the smallest limit under which it would have been granted
  std::optional<std::int64_t> limit;  ///< bytes; nullopt: it was not refused because of the limit
  StepPhase phase{};
  std::vector<LiveBlock> alive;  ///< oldest first
};

/// Sees every block of memory that tensors take and give back, on any thread, one call at a time.
/// It must allocate no tensor itself.
class BlockObserver {
 public:
  virtual ~BlockObserver() = default;
  virtual void born(const void* data, std::int64_t bytes, StepPhase phase) = 0;
  virtual void died(const void* data) = 0;
};

/// Counts the CPU memory of tensors, in requested bytes, while this object lives, and enforces a
/// limit:
///
///   CountingAllocator counter;
///   counter.set_limit(64 << 20);
///   run();                          // throws c10::OutOfMemoryError beyond 64 MiB
///   use(counter.peak_bytes());
///
/// It is installed on top of the current allocator of torch's CPU tensors, and gets each block from
/// it. If that is a CpuPool, the limit is the pool's, and applies to reserved bytes. Scopes may be
/// nested; an inner one counts for itself and for the outer ones. Only one thread may create and
/// destroy scopes, while no other thread allocates tensors; in between, any number of threads may
/// allocate and call these functions. A tensor may outlive the scope, and is then no longer
/// counted; older tensors are never counted. Memory that torch allocates elsewhere (its own small
/// objects, some LAPACK workspaces) is not seen.
class CountingAllocator {
 public:
  static constexpr std::int64_t kHeadBytes = 128;  ///< allocated with each block, before its data

  /// Throws std::logic_error if the current allocator cannot be replaced.
  CountingAllocator();
  ~CountingAllocator();
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  /// The newest live one; null if there is none.
  static CountingAllocator* innermost();

  /// The pool of the blocks; null: they are from no pool.
  CpuPool* pool() const;

  std::int64_t live_bytes() const;
  std::int64_t peak_bytes()
      const;  ///< the most that was live at once since construction or restart_peak()
  std::int64_t allocations() const;      ///< blocks allocated, except those of no bytes
  std::int64_t refusals() const;         ///< blocks refused
  std::vector<LiveBlock> alive() const;  ///< oldest first
  /// Restarts the measurement of the peak.
  void restart_peak();
  /// The most that was live at once since the last call; tracked separately, for MemoryMeter.
  std::int64_t take_peak();

  /// From now on a block is refused with c10::OutOfMemoryError if live bytes, or the pool's
  /// reserved bytes, would exceed this. What is live stays. nullopt: no limit.
  void set_limit(std::optional<std::int64_t> bytes);
  std::optional<std::int64_t> limit() const;

  /// The last refused block; nullopt: none since the last call of take_refused().
  std::optional<RefusedBlock> refused() const;
  /// The last refused block, which is then forgotten; nullopt: none since the last call.
  std::optional<RefusedBlock> take_refused();

  /// From now on `observer`, borrowed, sees the blocks; null: none does.
  void set_observer(BlockObserver* observer);

  /// For tests: from now on the `nth` allocation, counted from 1, is refused with
  /// c10::OutOfMemoryError, once. 0: none is.
  void refuse(std::int64_t nth);
  /// True if the allocation to refuse has not come yet.
  bool will_refuse() const;

 private:
  class Counter;
  Counter* const counter_;
};

/// False if unused blocks of `device`'s memory are not kept: CPU tensors come from malloc.
bool has_cache(c10::Device device);

/// Returns the unused blocks of `device`'s allocator to the driver or, on a CPU, to the system, if
/// it keeps any.
void empty_cache(c10::Device device);

}  // namespace stages
