#pragma once

#include <cstdint>

#include <c10/core/DeviceType.h>

#include "runner/stage/memory_plan.h"
#include "stages/artifact/artifacts.h"

namespace stages {

/// A dataset that keeps its samples in memory.
class HoldsMemory {
 public:
  virtual ~HoldsMemory() = default;
  /// Bytes of the CPU's memory that it holds, and the parts of the same data that were made together with it.
  virtual std::int64_t held_bytes() const = 0;
};

/// Adds to `plan` what `dataset` holds as long as a stage works on it, where that is the memory planned for: on the
/// CPU.
void add_held_memory(runner::MemoryPlan& plan, at::DeviceType device, const Dataset& dataset);

}  // namespace stages
