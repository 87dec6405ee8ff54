#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/memory/policy.h"

namespace stages {

/// A logical batch, and where the recipe says that it is cut.
struct CutBatch {
  std::int64_t size;            ///< that the recipe asks for
  std::int64_t units;           ///< that there are at most: the data may have fewer
  std::string accumulated_by;   ///< as TrainerOptions has it
  bool has_loss_forms = false;  ///< a term of its loss can be written in several ways
};

/// "memory.micro_batch": an option of the stage at `stage`, a place in the recipe such as
/// "/memory".
std::string option_of(const std::string& stage, const std::string& name);

/// "none", "block" or "[model.a,model.b]", as a recipe writes it.
std::string option_text(const ActivationCheckpointing& checkpointing);

/// What changes a recipe that asks for `from` so that it asks for `to`, as far as micro_batch,
/// two_pass, activation_checkpointing, offload, optimizer_in_backward and precision differ.
/// gradient_accumulation_steps, beside which a micro_batch is refused, gives way to one.
std::vector<std::string> overrides_between(const MemoryPolicy& from, const MemoryPolicy& to,
                                           const CutBatch& batch);

/// What a training needs under another policy. Throws runner::StageError where the policy cannot be
/// obeyed.
using PlanUnder = std::function<runner::MemoryPlan(const MemoryPolicy&)>;

/// Says in `plan`, which is that of `policy`, what each option does to the peak that the recipe
/// sets other than by default. `written` is what the recipe says; where that leaves a choice,
/// `policy` has chosen.
void add_option_effects(runner::MemoryPlan& plan, const MemoryPolicy& policy,
                        const MemoryPolicy& written, const CutBatch& batch, const PlanUnder& under);

/// Says in `plan` what else could be done with a batch: smaller parts of it, with activation
/// checkpointing of the blocks and without, in two passes where the loss asks for them. Each is
/// listed once, by the overrides that change the recipe so. Cheapest first; those beyond the budget
/// are listed too, and of the sizes of a part that fit only the largest and its halves.
void add_alternatives(runner::MemoryPlan& plan, const MemoryPolicy& policy, const CutBatch& batch,
                      const PlanUnder& under);

}  // namespace stages
