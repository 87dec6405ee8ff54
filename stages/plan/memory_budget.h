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

/// All CPU memory that this process may use, named after what limits it: the machine, or a control
/// group that allows less. `root` is / except in tests.
runner::NamedBytes host_memory(const std::filesystem::path& root = "/");
/// From now on `ranks` processes like this one share the machine: host_memory() is the part of
/// each.
void share_host_memory(int ranks);
/// host_memory() is at most this from now on: the ranks of a run make the same choices only if all
/// plan for the rank that has least.
void limit_host_memory(std::int64_t bytes);
/// The number of processes that share the machine's memory.
int host_memory_ranks();
/// The bytes of a GPU that each of `ranks` processes on it may use, of those that were free before
/// this process came. All of them have called it before, so that their contexts exist.
std::int64_t gpu_memory(c10::Device gpu, int ranks);
/// device_memory() of a GPU is this from now on, as the ranks of a run have agreed.
void set_gpu_memory(std::int64_t bytes);
/// All the memory that `device` has, by name.
runner::NamedBytes device_memory(c10::Device device);

/// The bytes of `whole` that may be used, named after what limits them: the smallest of `whole`,
/// the policy's share of it and the policy's budget; nullopt if nothing sets a limit. A run is
/// limited to it, and its plan is compared with it.
std::optional<runner::NamedBytes> memory_budget(const MemoryPolicy& policy,
                                                const std::optional<runner::NamedBytes>& whole);
/// The same, for all memory of `device`.
std::int64_t memory_budget(const MemoryPolicy& policy, c10::Device device);

/// Limits the tensors of `device` to a budget while it lives; then the previous budget applies
/// again. Allocations beyond it throw c10::OutOfMemoryError. What counts is what the device's
/// allocator has reserved: LibTorch's on a GPU, the CpuPool on a CPU. Without a pool the innermost
/// CountingAllocator counts what is live; without that nothing is limited.
class [[nodiscard]] ScopedMemoryBudget {
 public:
  ScopedMemoryBudget(std::int64_t bytes, c10::Device device);
  ~ScopedMemoryBudget();
  ScopedMemoryBudget(const ScopedMemoryBudget&) = delete;
  ScopedMemoryBudget& operator=(const ScopedMemoryBudget&) = delete;

 private:
  const c10::Device device_;
  std::optional<std::int64_t> bytes_before_;  // of a CPU
  double share_before_ = 1;                   // of a GPU
};

/// The next way of computing the same step that needs at most `bytes`, after `failed` did not fit;
/// nullopt if there is none.
using Replan =
    std::function<std::optional<MemoryPolicy>(const MemoryPolicy& failed, std::int64_t bytes)>;

/// The next way, without any prediction, for batches of at most `units`: parts of half the size,
/// rounded up, down to min_micro_batch, in two passes if the loss needs it; then recomputed blocks.
/// Halving a part is what max_retries itself asks for, but it is left out if `allow` is bit. Two
/// passes are left out unless `allow` is exact, and recomputed blocks if it is nothing. `accepts`
/// says whether a training can obey a policy without changing what is trained.
std::optional<MemoryPolicy> next_plan(const MemoryPolicy& failed, std::int64_t units,
                                      const std::function<bool(const MemoryPolicy&)>& accepts);

/// Another way may need at most this fraction of what the failed way needs.
inline constexpr double kShrunk = 0.85;

/// Finds another way by the search that chose the failed one: the fastest that needs at most
/// `bytes`, or less if the recipe's budget allows less of them. The failed way was predicted to
/// fit, so either the prediction was wrong or other processes have taken the memory. The new way
/// therefore needs at most kShrunk times what the failed one needs, or is the way that needs the
/// least; in any case it needs less than the failed one. The place of the optimizer's state was
/// decided when the training began, and stays. nullopt if there is no such way or if the search
/// itself runs out of memory. References in `search` must stay valid.
Replan search_again(PolicySearch search);

}  // namespace stages
