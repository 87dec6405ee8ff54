#pragma once

#include <cstdint>

#include "stages/plan/step_profile.h"
#include "stages/plan/trace_history.h"

// The CPU-specific part of a plan: allocator and speed.

namespace stages {

/// Returns the peak of the CPU pool's reserved bytes if every allocation succeeds.
std::int64_t reserved_by_pool(const TraceHistory& history);

double seconds_on_cpu(const StepWork& work, int threads);

}  // namespace stages
