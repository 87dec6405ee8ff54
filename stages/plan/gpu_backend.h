#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/machine/allocator_settings.h"
#include "stages/plan/step_profile.h"
#include "stages/plan/trace_history.h"

// What belongs to a GPU in a plan: its allocator, what it needs outside of that, and its speed.

namespace stages {

/// The reserved bytes of LibTorch's caching allocator at their peak.
std::int64_t reserved_on_gpu(const TraceHistory& history, const AllocatorSettings& settings);

/// The memory that a GPU needs outside of its allocator. `model` may be empty.
std::vector<runner::NamedBytes> gpu_terms(std::string model);

/// The name of a traced operation there: attention is traced by the CPU's kernel, whichever kernel
/// a GPU uses.
std::string operation_on_gpu(const std::string& operation);

double seconds_on_gpu(const StepWork& work);

}  // namespace stages
