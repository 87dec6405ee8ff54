#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "tests/support/kernels_on_cpu/cuda/cuda_runtime.h"

namespace kernels_on_cpu {

/// The order in which the blocks of a grid run, and the threads of a block between two barriers.
enum class Order { kForward, kBackward, kShuffled };
struct Schedule {
  Order blocks = Order::kForward, threads = Order::kForward;
  std::uint64_t seed = 0;  ///< of kShuffled
  /// The largest number of blocks in a grid; further blocks do not run. For kernels with results
  /// that do not depend on the number of blocks.
  unsigned most_blocks = std::numeric_limits<unsigned>::max();
};

/// Runs the kernels that are launched in its scope with this schedule. Without it, all orders are
/// kForward.
class [[nodiscard]] ScopedSchedule {
 public:
  explicit ScopedSchedule(const Schedule& schedule);
  ~ScopedSchedule();
  ScopedSchedule(const ScopedSchedule&) = delete;
  ScopedSchedule& operator=(const ScopedSchedule&) = delete;

 private:
  const Schedule before_;
};

/// The values in <<<…>>>.
struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

/// A call of a kernel, without the type of its arguments.
struct KernelCall {
  const char* name;
  const void* arguments;
  std::size_t size;  ///< of the arguments, in bytes
  void (*call)(const void* arguments);
};

/// Runs a grid of threads, one at a time. The first fault of a thread ends the launch;
/// cudaGetLastError() then returns cudaErrorLaunchFailure.
void run_grid(const Configuration& configuration, const KernelCall& kernel);

/// The call that translate.cmake writes for `name<<<configuration>>>(arguments)`. `kernel` contains
/// copies of the arguments.
template <typename Kernel>
void launch(const char* name, const Configuration& configuration, const Kernel& kernel) {
  run_grid(configuration, {name, &kernel, sizeof kernel, [](const void* arguments) {
                             (*static_cast<const Kernel*>(arguments))();
                           }});
}

/// Looks up an access of the running thread. Does nothing if no kernel is running.
void see_access(const void* address, std::size_t size, bool is_write);

}  // namespace kernels_on_cpu
