#pragma once

#include <cstdint>

#include <c10/core/DeviceType.h>

#include "runner/stage/memory_plan.h"
#include "stages/artifact/dataset.h"

namespace stages {

/// Adds to `plan` what a Loader of batches of `units` holds beside the batch that is computed, where that is the memory
/// planned for: on the CPU, with workers.
void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units);

}  // namespace stages
