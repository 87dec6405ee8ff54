#pragma once

#include <cstdint>

#include "stages/plan/step_profile.h"
#include "stages/plan/trace_history.h"

// What belongs to a CPU in a plan: its allocator and its speed.

namespace stages {

/// The reserved bytes of the CPU's pool at their peak, if it gets all that it asks for.
std::int64_t reserved_by_pool(const TraceHistory& history);

double seconds_on_cpu(const StepWork& work, int threads);

}  // namespace stages
