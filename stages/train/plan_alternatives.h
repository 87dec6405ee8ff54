#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runner/stage/memory_plan.h"
#include "stages/memory/policy.h"

namespace stages {

/// What a training needs under another policy. Throws runner::StageError where the policy cannot be obeyed.
using PlanUnder = std::function<runner::MemoryPlan(const MemoryPolicy&)>;

/// A logical batch, and where the recipe says that it is cut.
struct CutBatch {
  std::int64_t size;           ///< that the recipe asks for
  std::int64_t units;          ///< that there are at most: the data may have fewer
  std::string accumulated_by;  ///< as TrainerOptions has it
};

/// Says in `plan` what each option of the recipe that makes `policy` other than by default does to the peak.
void add_option_effects(runner::MemoryPlan& plan, const MemoryPolicy& policy, const CutBatch& batch,
                        const PlanUnder& under);

/// Says in `plan` what else could be done with a batch: smaller parts of it, with activation checkpointing of the
/// blocks and without, in two passes where the loss asks for them. Each is listed once, by the overrides that change
/// the recipe so. Cheapest first; those beyond the budget are listed too, and of the sizes of a part that fit only the
/// largest and its halves.
void add_alternatives(runner::MemoryPlan& plan, const MemoryPolicy& policy, const CutBatch& batch,
                      const PlanUnder& under);

}  // namespace stages
