#pragma once

#include <cstdint>
#include <functional>

#include "runner/stage/memory_plan.h"
#include "stages/memory/policy.h"

namespace stages {

/// What a training needs under another policy. Throws runner::StageError where the policy cannot be obeyed.
using PlanUnder = std::function<runner::MemoryPlan(const MemoryPolicy&)>;

/// Says in `plan` what each option of `policy` that is not as by default does to the peak.
void add_option_effects(runner::MemoryPlan& plan, const MemoryPolicy& policy, const PlanUnder& under);

/// Says in `plan` what else could be done with a batch of `units`: smaller parts of it, with activation checkpointing
/// of the blocks and without, in two passes where the loss asks for them. Cheapest first; those beyond the budget are
/// listed too, and of the sizes of a part that fit only the largest and its halves.
void add_alternatives(runner::MemoryPlan& plan, const MemoryPolicy& policy, std::int64_t units, const PlanUnder& under);

}  // namespace stages
