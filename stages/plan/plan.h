#pragma once

#include <string>

#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"
#include "stages/plan/choose_policy.h"
#include "stages/plan/plan_forward.h"

// What a stage needs, and how it is computed so that it fits:
//
//   plan()           a step of a training, under the policy of a recipe
//   plan_forward()   a network that runs over a dataset
//
// Its parts, in the order in which a plan is made:
//
//   memory_trace.h, recorder.h      records the births and deaths of tensors on the Meta device
//   meta_kernels.h, meta_*.cpp      what kernels allocate there, as on a device
//   repetition.h                    parts of a batch that are traced once and repeated
//   summarize.h                     from a trace to live, reserved and needed bytes
//   memory_budget.h                 the bytes that the needed bytes are compared with
//   choose_policy.h                 the fastest way that fits, by the time model of step_profile.h
//   plan_alternatives.h             the effects of options, and other ways
//   real_steps.h, real_samples.h    what is run in place of a dry run that code of the user fails
//   block_recording.h               what such steps take
//   measured_work.h                 from that to what steps on more samples need
//   recovery.h                      what is tried after a plan was wrong

namespace stages {

/// Plans a step. `step` says how it is traced under a policy, and what the recipe writes; the
/// budget is set here. If the policy leaves a choice, the fastest way that fits is chosen
/// (choose_policy.h), or, if the run has started before, the one that it used then, if that fits.
/// If the plan does not fit, or the context requests them, alternatives are examined too.
/// `model_stage` makes the network. Throws runner::StageError if the policy cannot be obeyed.
PlannedStep plan(PolicySearch step, const std::string& model_stage, runner::PlanContext& context);

}  // namespace stages
