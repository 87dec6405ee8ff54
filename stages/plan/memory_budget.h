#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <c10/core/Device.h>

#include "runner/shared/stage/memory_plan.h"

namespace stages {

class MemoryPolicy;

/// All the memory that this process may have of the CPU's, named after who says so: the machine, or a control group
/// that leaves less. `root` is / but in tests.
runner::NamedBytes host_memory(const std::filesystem::path& root = "/");
/// All the memory that `device` has, by name.
runner::NamedBytes device_memory(c10::Device device);

/// The bytes that may be used of `whole`, named after who says so: the smallest of it, of the policy's share of it and
/// of the policy's budget; nullopt: nobody says anything. A run is held to it, and its plan is held against it.
std::optional<runner::NamedBytes> memory_budget(const MemoryPolicy& policy,
                                                const std::optional<runner::NamedBytes>& whole);
/// The same of all that `device` has.
std::int64_t memory_budget(const MemoryPolicy& policy, c10::Device device);

/// Holds the tensors of `device` to a budget as long as it lives, and then to the one from before: what goes beyond it
/// is refused with c10::OutOfMemoryError. What counts is what the device's allocator has reserved: LibTorch's of a GPU,
/// the CpuPool of a CPU. Without a pool the innermost CountingAllocator counts what is live, and without that nobody.
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

}  // namespace stages
