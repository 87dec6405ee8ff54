#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <c10/core/Device.h>

#include "runner/shared/stage/plan_context.h"
#include "stages/memory/policy.h"

// Real steps for a plan, where Python code of the user needs values that tensors of a dry run do
// not have.

namespace stages {

/// Says, when a request to Python fails, whether by an exception of the user's code, or of what
/// that called. What Python's part of Retort refuses is no such failure.
void set_raised_by_user(bool was_raised);

/// Why a dry run failed, in one line, if such code may be the reason: it raised an exception, in a
/// forward pass or, where no stage failed, in a backward pass. Rethrows everything else. Called
/// while the exception is handled.
std::string why_not_dry();

/// Throws runner::StageError, kMeasuredPlan, if no real step may be run for a plan: it is strict,
/// or for a GPU that is not here. `why` is what the dry run said.
void check_may_measure(const std::string& why, const runner::PlanContext& context);

/// Does `work`, real steps for a plan, within the budget of the plan, and restores torch's random
/// number generators. Throws runner::StageError, kOutOfMemory, if memory does not suffice.
void do_for_plan(const MemoryPolicy& policy, const runner::PlanContext& context,
                 const std::function<void()>& work);

}  // namespace stages
