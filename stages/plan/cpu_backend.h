#pragma once

#include <cstddef>
#include <cstdint>

#include "runner/shared/stage/memory_plan.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/step_profile.h"
#include "stages/plan/trace_history.h"

// What belongs to a CPU in a plan: its allocator, what its kernels take for themselves, and its
// speed.

namespace stages {

/// The reserved bytes of the CPU's pool at their peak, if it gets all that it asks for.
std::int64_t reserved_by_pool(const TraceHistory& history);

/// Adds to the needed bytes of `plan` what kernels take for themselves at most, and a margin.
void add_cpu_terms(runner::MemoryPlan& plan, const MemoryTrace& trace, std::size_t first_event);

double seconds_on_cpu(const StepWork& work, int threads);

}  // namespace stages
