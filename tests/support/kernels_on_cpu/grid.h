#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/kernels_on_cpu/fiber.h"
#include "tests/support/kernels_on_cpu/launch.h"
#include "tests/support/kernels_on_cpu/shadow.h"

namespace kernels_on_cpu {

/// Returns the number of blocks in a grid or of threads in a block.
std::size_t count_of(const dim3& size);

/// Memory that kernels may read while this exists.
class ScopedConstant {
 public:
  ScopedConstant(const char* name, const void* begin, std::size_t size);
  ~ScopedConstant();
  ScopedConstant(const ScopedConstant&) = delete;
  ScopedConstant& operator=(const ScopedConstant&) = delete;

 private:
  const void* const begin_;
};

/// The blocks and threads of one launch. Each thread of a block is a fiber. There is at most one
/// grid at a time.
class Grid {
 public:
  static constexpr std::size_t kMostThreads = 1024;  ///< of a block, as on every GPU

  Grid(const Configuration& configuration, const KernelCall& kernel, const Schedule& schedule);
  ~Grid() { running_ = nullptr; }
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  /// Null if no kernel is running.
  static Grid* running() { return running_; }
  /// Runs blocks until a thread has a fault. Returns the fault; empty if there is none.
  std::string run();

  // The running thread calls wait() and see(). If the access is a fault, see() does not return.
  void wait(int line);
  void see(const Access& access);

 private:
  struct Thread {
    Fiber fiber;
    int line = 0;  // the line of the barrier at which it waits; 0: it has ended
  };
  static std::vector<Thread>& all_threads();
  void run_block();
  void run_to_barrier();
  void check_barrier();
  Thread& current();

  inline static Grid* running_ = nullptr;
  inline static std::uint64_t launches_ = 0;

  const KernelCall kernel_;
  const Schedule schedule_;
  const ScopedConstant constants_[5];
  std::mt19937_64 random_;
  const std::span<Thread> threads_;
  Turn now_;
  std::string fault_;
};

}  // namespace kernels_on_cpu
