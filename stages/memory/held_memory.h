#pragma once

#include <cstdint>

#include <c10/core/DeviceType.h>

#include "runner/stage/memory_plan.h"
#include "stages/artifact/dataset.h"

namespace stages {

/// Adds to `plan` what `dataset` holds as long as a stage works on it, where that is the memory planned for: on the
/// CPU.
void add_held_memory(runner::MemoryPlan& plan, at::DeviceType device, const Dataset& dataset);

}  // namespace stages
