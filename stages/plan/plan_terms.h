#pragma once

#include <cstdint>
#include <initializer_list>

#include <c10/core/DeviceType.h>

#include "runner/shared/stage/plan_context.h"
#include "stages/artifact/dataset.h"
#include "stages/memory/policy.h"
#include "stages/tensor/batch.h"

namespace stages {

// What a plan is made of beside its trace: the batch that is traced, the memory that nobody traces, and the budget.

/// `units` samples as `data` describes them, on the Meta device: shapes and types without values. Their indices are 0,
/// 1, 2 …
Batch meta_batch(const DatasetDescription& data, std::int64_t units);

/// Adds to `plan` what stands beside the trace that summarize() has made it of. Only this and add_held_memory() change
/// its prediction from then on.
void add_term(runner::MemoryPlan& plan, runner::NamedBytes term);

/// Adds to `plan` what a Loader of batches of `units` holds besides the batch that is computed, where that is the
/// memory planned for: on the CPU, with workers.
void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units);

/// Adds to `plan` what is in memory as long as a stage works: what its inputs among `datasets` hold, of which any may
/// be null, where that is the memory planned for, on the CPU; and what earlier nodes hold.
void add_held_memory(runner::MemoryPlan& plan, const runner::PlanContext& context,
                     std::initializer_list<const Dataset*> datasets);

/// Says in `plan` what it is held against: the memory_budget() of what the device has, or whoever asks for the plan
/// says it has.
void set_budget(runner::MemoryPlan& plan, const MemoryPolicy& policy, const runner::PlanContext& context);

}  // namespace stages
