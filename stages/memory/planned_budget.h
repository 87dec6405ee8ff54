#pragma once

#include "runner/stage/plan_context.h"
#include "stages/memory/policy.h"

namespace stages {

/// Says in `plan` what it is compared with: the smallest of memory.budget, of what the device has, or whoever asks for
/// the plan says it has, and of memory_fraction of that.
void set_budget(runner::MemoryPlan& plan, const MemoryPolicy& policy, const runner::PlanContext& context);

}  // namespace stages
