#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runner/shared/stage/memory_plan.h"
#include "stages/memory/policy.h"
#include "stages/plan/policy_overrides.h"

namespace stages {

/// What a training needs under another policy. Throws runner::StageError where the policy cannot be obeyed.
using PlanUnder = std::function<runner::MemoryPlan(const MemoryPolicy&)>;

/// Says in `plan`, which is that of `policy`, what each option does to the peak that the recipe sets other than by
/// default. `written` is what the recipe says; where that leaves a choice, `policy` has chosen.
void add_option_effects(runner::MemoryPlan& plan, const MemoryPolicy& policy, const MemoryPolicy& written,
                        const CutBatch& batch, const PlanUnder& under);

/// Says in `plan` what else could be done with a batch: smaller parts of it, with activation checkpointing of the
/// blocks and without, in two passes where the loss asks for them. Each is listed once, by the overrides that change
/// the recipe so. Cheapest first; those beyond the budget are listed too, and of the sizes of a part that fit only the
/// largest and its halves.
void add_alternatives(runner::MemoryPlan& plan, const MemoryPolicy& policy, const CutBatch& batch,
                      const PlanUnder& under);

}  // namespace stages
