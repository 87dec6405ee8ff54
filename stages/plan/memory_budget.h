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

/// All the memory that this process may have of the CPU's, named after who says so: the machine, or
/// a control group that leaves less. `root` is / but in tests.
runner::NamedBytes host_memory(const std::filesystem::path& root = "/");
/// All the memory that `device` has, by name.
runner::NamedBytes device_memory(c10::Device device);

/// The bytes that may be used of `whole`, named after who says so: the smallest of it, of the
/// policy's share of it and of the policy's budget; nullopt: nobody says anything. A run is held to
/// it, and its plan is held against it.
std::optional<runner::NamedBytes> memory_budget(const MemoryPolicy& policy,
                                                const std::optional<runner::NamedBytes>& whole);
/// The same of all that `device` has.
std::int64_t memory_budget(const MemoryPolicy& policy, c10::Device device);

/// Holds the tensors of `device` to a budget as long as it lives, and then to the one from before:
/// what goes beyond it is refused with c10::OutOfMemoryError. What counts is what the device's
/// allocator has reserved: LibTorch's of a GPU, the CpuPool of a CPU. Without a pool the innermost
/// CountingAllocator counts what is live, and without that nobody.
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
/// nullopt: there is none.
using Replan =
    std::function<std::optional<MemoryPolicy>(const MemoryPolicy& failed, std::int64_t bytes)>;

/// The next way without any prediction, for batches of at most `units`: parts of half the size,
/// rounded up, down to min_micro_batch, where the loss needs it in two passes; then the blocks
/// recomputed. A part of half the size is what max_retries itself asks for; it is left out where
/// `allow` is bit, as two passes are unless it is exact, and recomputed blocks where it is nothing.
/// `accepts` says whether a training can obey a policy without changing what is trained.
std::optional<MemoryPolicy> next_plan(const MemoryPolicy& failed, std::int64_t units,
                                      const std::function<bool(const MemoryPolicy&)>& accepts);

/// Of what a failed way needs, the most that another may need.
inline constexpr double kShrunk = 0.85;

/// Looks for another way by the search that has chosen the one that failed: the quickest that needs
/// at most `bytes`, and what the recipe's budget leaves of them. That the failed one was predicted
/// to fit says that the prediction was wrong, or that others have taken what it counted on: so the
/// other needs less than it by kShrunk, or the least that any does, but always less. Where the
/// optimizer's state lies was decided when the training began, and stays. nullopt where there is
/// none, and where the search itself runs out of memory. What `search` borrows is borrowed.
Replan search_again(PolicySearch search);

}  // namespace stages
