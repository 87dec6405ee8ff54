#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <c10/core/Device.h>

#include "runner/shared/stage/plan_context.h"
#include "stages/memory/policy.h"

// Real steps for a plan, in case the user's Python code needs values, which the tensors in a dry
// run do not have.

namespace stages {

/// Records, when a request to Python fails, whether the user's code or code that it called raised
/// an exception. Errors reported by Retort's own Python code do not count.
void set_raised_by_user(bool was_raised);

/// Returns in one line why a dry run failed, if user code may be the cause: it raised an exception
/// in a forward pass or, if no stage failed, in a backward pass. Rethrows all other exceptions.
/// Call this while the exception is being handled.
std::string why_not_dry();

/// Throws runner::StageError, kMeasuredPlan, if no real step may be run for a plan: the plan is
/// strict, or is for a GPU that this machine does not have. `why` is the dry run's error.
void check_may_measure(const std::string& why, const runner::PlanContext& context);

/// Runs `work`, real steps for a plan, within the plan's budget, and restores torch's random number
/// generators. Throws runner::StageError, kOutOfMemory, if there is not enough memory.
void do_for_plan(const MemoryPolicy& policy, const runner::PlanContext& context,
                 const std::function<void()>& work);

}  // namespace stages
