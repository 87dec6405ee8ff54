#pragma once

#include <string>

#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"
#include "stages/plan/choose_policy.h"
#include "stages/plan/plan_forward.h"

// Plans how much memory a stage needs and how to compute it within the budget:
//
//   plan()           plans a training step under a recipe's policy
//   plan_forward()   plans a network that runs over a dataset
//
// The parts, in the order in which a plan uses them:
//
//   memory_trace.h, recorder.h      record when tensors on the Meta device are allocated and freed
//   meta_kernels.h, meta_*.cpp      allocate there what a device's kernels would allocate
//   repetition.h                    traces equal parts of a batch once and repeats them
//   summarize.h                     turns a trace into live, reserved and needed bytes
//   memory_budget.h                 computes the budget for the needed bytes
//   choose_policy.h                 chooses the fastest configuration that fits (step_profile.h)
//   plan_alternatives.h             lists the effects of options, and the alternatives
//   real_steps.h, real_samples.h    run real steps if user code makes a dry run fail
//   block_recording.h               records the memory of such steps
//   measured_work.h                 extrapolates it to steps on more samples
//   recovery.h                      recovers if a plan was wrong

namespace stages {

/// Plans a step. `step` contains the recipe's policy and a function that traces the step under a
/// policy; plan() sets its budget. If the policy leaves a choice, the fastest configuration that
/// fits is chosen (choose_policy.h). A resumed run keeps its previous one if that fits. If the plan
/// does not fit, or if the context requests it, alternatives are examined too. `model_stage`
/// creates the network. Throws runner::StageError if the policy cannot be followed.
PlannedStep plan(PolicySearch step, const std::string& model_stage, runner::PlanContext& context);

}  // namespace stages
