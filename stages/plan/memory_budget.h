#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include <c10/core/Device.h>

#include "runner/shared/stage/memory_plan.h"
#include "stages/memory/policy.h"
#include "stages/plan/choose_policy.h"

namespace stages {

class MemoryPolicy;

/// Returns the total CPU memory that this process may use, labeled with what limits it: the
/// machine, or a control group that allows less. `root` is / except in tests.
runner::NamedBytes host_memory(const std::filesystem::path& root = "/");
/// Divides host_memory() among `ranks` processes that share the machine; from now on it returns one
/// process's share.
void share_host_memory(int ranks);
/// Limits host_memory() to `bytes` from now on: the ranks of a run make the same choices only if
/// all of them plan for the rank with the least memory.
void limit_host_memory(std::int64_t bytes);
/// Returns the number of processes that share the machine's memory.
int host_memory_ranks();
/// Returns how much of the GPU's free memory each of `ranks` processes may use. Creates the CUDA
/// context of this process; call it again once all processes have called it.
std::int64_t gpu_memory(c10::Device gpu, int ranks);
/// Sets device_memory() of a GPU to the value that the ranks of a run have agreed on.
void set_gpu_memory(std::int64_t bytes);
/// Returns the total memory of `device`, labeled with its source.
runner::NamedBytes device_memory(c10::Device device);

/// Returns the bytes of `whole` that may be used, labeled with what limits them: the smallest of
/// `whole`, the policy's share of it and the policy's budget; nullopt if there is no limit. A run
/// is limited to these bytes, and its plan is compared with them.
std::optional<runner::NamedBytes> memory_budget(const MemoryPolicy& policy,
                                                const std::optional<runner::NamedBytes>& whole);
/// Returns memory_budget() in bytes, with all memory of `device` as `whole`.
std::int64_t memory_budget(const MemoryPolicy& policy, c10::Device device);

/// While this object lives, limits the tensors of `device` to a budget; allocations that would
/// exceed it throw c10::OutOfMemoryError. The destructor restores the previous budget. The budget
/// applies to the bytes reserved by the device's allocator: LibTorch's on a GPU, the CpuPool on a
/// CPU. Without a pool, the innermost CountingAllocator counts live bytes; without that, nothing is
/// limited.
class [[nodiscard]] ScopedMemoryBudget {
 public:
  ScopedMemoryBudget(std::int64_t bytes, c10::Device device);
  ~ScopedMemoryBudget();
  ScopedMemoryBudget(const ScopedMemoryBudget&) = delete;
  ScopedMemoryBudget& operator=(const ScopedMemoryBudget&) = delete;

 private:
  const c10::Device device_;
  std::optional<std::int64_t> bytes_before_;  // on a CPU
  double share_before_ = 1;                   // on a GPU
};

/// Returns the next configuration of the same step that needs at most `bytes`, after `failed` did
/// not fit; nullopt if there is none.
using Replan =
    std::function<std::optional<MemoryPolicy>(const MemoryPolicy& failed, std::int64_t bytes)>;

/// Returns the next configuration to try, without any prediction, for batches of at most `units`;
/// nullopt if there is none. First it halves the micro-batch, rounding up, down to min_micro_batch,
/// in two passes if the loss needs them; then it recomputes all blocks. Halving is not tried if
/// `allow` is `bit`; two passes are tried only if it is `exact`, and recomputing only if it is not
/// `nothing`. `accepts` returns true if a training run can follow a policy without changing what is
/// trained.
std::optional<MemoryPolicy> next_plan(const MemoryPolicy& failed, std::int64_t units,
                                      const std::function<bool(const MemoryPolicy&)>& accepts);

/// A new configuration may need at most this fraction of the failed configuration's bytes.
inline constexpr double kShrunk = 0.85;

/// Returns a Replan that repeats the search behind the failed configuration: it finds the fastest
/// configuration that needs at most `bytes`, or less if the recipe's budget allows less. The failed
/// one was predicted to fit, so either the prediction was wrong or other processes now use the
/// memory. The new one therefore needs at most kShrunk times the bytes of the failed one, or is the
/// configuration that needs the fewest; in any case it needs less than the failed one. The
/// optimizer state stays where it was placed when training began. The Replan returns nullopt if
/// there is no such configuration or if the search itself runs out of memory. References in
/// `search` must stay valid.
Replan search_again(PolicySearch search);

}  // namespace stages
