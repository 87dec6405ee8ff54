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
  StepPhase phase{};  ///< the phase in which it was allocated
};

/// A refused block, and the live blocks at that moment.
struct RefusedBlock {
  std::int64_t tried = 0, live = 0;  ///< bytes
  std::int64_t taken =
      0;  ///< bytes that count against a limit: live bytes or, with a pool, reserved bytes
  std::int64_t wanted = 0;  ///< bytes: the smallest limit under which it would have succeeded
  std::optional<std::int64_t> limit;  ///< bytes; nullopt: the limit was not the reason
  StepPhase phase{};
  std::vector<LiveBlock> alive;  ///< oldest first
};

/// Observes every block of memory that tensors allocate and free, on any thread, one call at a
/// time. An observer must not allocate tensors.
class BlockObserver {
 public:
  virtual ~BlockObserver() = default;
  virtual void born(const void* data, std::int64_t bytes, StepPhase phase) = 0;
  virtual void died(const void* data) = 0;
};

/// While this object lives, counts the CPU memory of tensors in requested bytes, and enforces a
/// limit:
///
///   CountingAllocator counter;
///   counter.set_limit(64 << 20);
///   run();                          // throws c10::OutOfMemoryError above 64 MiB
///   use(counter.peak_bytes());
///
/// It wraps torch's current CPU allocator and gets each block from it. If that allocator is a
/// CpuPool, the limit is passed to the pool and applies to reserved bytes. Scopes may be nested;
/// bytes counted by an inner one also count for the outer ones. Scopes must be created and
/// destroyed by one thread, while no other thread allocates tensors; in between, any number of
/// threads may allocate and call these functions. A tensor may outlive the scope, and is then no
/// longer counted; tensors from before the scope are never counted. Memory that torch allocates
/// elsewhere (its own small objects, some LAPACK workspaces) is not counted.
class CountingAllocator {
 public:
  static constexpr std::int64_t kHeadBytes =
      128;  ///< header allocated in front of each block's data

  /// Throws std::logic_error if the current allocator cannot be replaced.
  CountingAllocator();
  ~CountingAllocator();
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  /// Returns the innermost live scope; null if there is none.
  static CountingAllocator* innermost();

  /// Returns the pool that the blocks come from; null if they come from no pool.
  CpuPool* pool() const;

  std::int64_t live_bytes() const;
  std::int64_t peak_bytes() const;   ///< peak of live_bytes() since construction or restart_peak()
  std::int64_t allocations() const;  ///< blocks allocated, except empty ones
  std::int64_t refusals() const;     ///< blocks refused
  std::vector<LiveBlock> alive() const;  ///< oldest first
  /// Restarts the measurement of the peak.
  void restart_peak();
  /// Returns the peak of live_bytes() since the last call. Tracked separately, for MemoryMeter.
  std::int64_t take_peak();

  /// From now on, refuses a block with c10::OutOfMemoryError if live bytes (with a pool, reserved
  /// bytes) would exceed `bytes`. Live blocks remain. nullopt: no limit.
  void set_limit(std::optional<std::int64_t> bytes);
  std::optional<std::int64_t> limit() const;

  /// Returns the last refused block; nullopt if there has been none since the last take_refused().
  std::optional<RefusedBlock> refused() const;
  /// Returns the last refused block and forgets it; nullopt if there has been none since the last
  /// call.
  std::optional<RefusedBlock> take_refused();

  /// Sets the observer of all blocks, which is borrowed; null: none.
  void set_observer(BlockObserver* observer);

  /// For tests: makes one allocation throw c10::OutOfMemoryError, the `nth` from now on (1 is the
  /// next one). 0: none.
  void refuse(std::int64_t nth);
  /// True if the allocation selected by refuse() has not happened yet.
  bool will_refuse() const;

 private:
  class Counter;
  Counter* const counter_;
};

/// True if the allocator of `device` keeps unused blocks. False for CPU tensors that come from
/// malloc.
bool has_cache(c10::Device device);

/// Returns the unused blocks of `device`'s allocator, if it keeps any, to the driver or, on a CPU,
/// to the system.
void empty_cache(c10::Device device);

}  // namespace stages
