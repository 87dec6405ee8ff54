#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/memory/policy.h"

namespace stages {

/// A batch, and the recipe's option that splits it.
struct CutBatch {
  std::int64_t size;   ///< the size that the recipe sets
  std::int64_t units;  ///< the largest number of samples in a batch: the data may have fewer
  std::string accumulated_by;   ///< as in TrainerOptions
  bool has_loss_forms = false;  ///< a term of the loss has several forms
};

/// Returns the full name of an option of the stage at `stage`: for the recipe location "/memory", a
/// name such as "memory.micro_batch".
std::string option_of(const std::string& stage, const std::string& name);

/// Returns "none", "block" or "[model.a,model.b]", as written in a recipe.
std::string option_text(const ActivationCheckpointing& checkpointing);

/// Returns the overrides that change a recipe with policy `from` into one with policy `to`. They
/// cover micro_batch, two_pass, activation_checkpointing, offload, shard, optimizer_in_backward,
/// loss_form and precision. micro_batch replaces gradient_accumulation_steps, since a recipe cannot
/// have both.
std::vector<std::string> overrides_between(const MemoryPolicy& from, const MemoryPolicy& to,
                                           const CutBatch& batch);

/// Returns the memory plan for a training step under another policy. Throws runner::StageError if
/// the policy cannot be followed.
using PlanUnder = std::function<runner::MemoryPlan(const MemoryPolicy&)>;

/// Adds to `plan`, the plan for `policy`, the effect on the peak of each option that the recipe
/// sets to a non-default value. `written` is the recipe's policy; `policy` is the same with all
/// open choices made.
void add_option_effects(runner::MemoryPlan& plan, const MemoryPolicy& policy,
                        const MemoryPolicy& written, const CutBatch& batch, const PlanUnder& under);

/// Adds to `plan` the alternatives for a batch: smaller parts, with and without recomputed blocks,
/// in two passes if the loss needs them. Each is listed once, cheapest first, with the overrides
/// that select it. Alternatives that exceed the budget are listed too. Of the part sizes that fit,
/// only the largest and its halves are listed.
void add_alternatives(runner::MemoryPlan& plan, const MemoryPolicy& policy, const CutBatch& batch,
                      const PlanUnder& under);

}  // namespace stages
