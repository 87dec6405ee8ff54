#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/memory/policy.h"

namespace stages {

/// A logical batch, and the option of the recipe that splits it.
struct CutBatch {
  std::int64_t size;            ///< that the recipe asks for
  std::int64_t units;           ///< the most in a batch: the data may have fewer
  std::string accumulated_by;   ///< as in TrainerOptions
  bool has_loss_forms = false;  ///< a term of its loss has several forms
};

/// "memory.micro_batch": an option of the stage at `stage`, a place in the recipe such as
/// "/memory".
std::string option_of(const std::string& stage, const std::string& name);

/// "none", "block" or "[model.a,model.b]", as a recipe writes it.
std::string option_text(const ActivationCheckpointing& checkpointing);

/// The overrides that change a recipe with policy `from` into one with policy `to`. They cover
/// micro_batch, two_pass, activation_checkpointing, offload, shard, optimizer_in_backward and
/// precision. A micro_batch replaces gradient_accumulation_steps, since a recipe may not have both.
std::vector<std::string> overrides_between(const MemoryPolicy& from, const MemoryPolicy& to,
                                           const CutBatch& batch);

/// The memory plan of a training under another policy. Throws runner::StageError if the policy
/// cannot be obeyed.
using PlanUnder = std::function<runner::MemoryPlan(const MemoryPolicy&)>;

/// Adds to `plan`, the plan of `policy`, the effect on the peak of each option that the recipe sets
/// to something other than its default. `written` is the recipe's policy; `policy` has the choices
/// made that it leaves open.
void add_option_effects(runner::MemoryPlan& plan, const MemoryPolicy& policy,
                        const MemoryPolicy& written, const CutBatch& batch, const PlanUnder& under);

/// Adds to `plan` the alternatives for a batch: smaller parts of it, with and without activation
/// checkpointing of the blocks, in two passes if the loss needs them. Each is listed once, with the
/// overrides that change the recipe accordingly, the cheapest first. Those beyond the budget are
/// listed too; of the part sizes that fit only the largest and its halves are.
void add_alternatives(runner::MemoryPlan& plan, const MemoryPolicy& policy, const CutBatch& batch,
                      const PlanUnder& under);

}  // namespace stages
