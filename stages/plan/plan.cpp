#include "stages/plan/plan.h"

#include <optional>
#include <utility>

#include "runner/shared/stage/stage.h"
#include "stages/plan/plan_alternatives.h"
#include "stages/plan/replayed_policy.h"
#include "stages/plan/step_profile.h"

namespace stages {
namespace {

/// Makes the choices that the recipe leaves open, either as in the earlier run or by searching.
PlannedStep resolve_policy(const PolicySearch& search, const std::string& model_stage,
                           const runner::PlanContext& context) {
  if (search.written.min_micro_batch > search.batch.size) {
    throw runner::StageError(
        runner::ErrorCode::kOptionConflict,
        "min_micro_batch is " + std::to_string(search.written.min_micro_batch) +
            ", but the batch size is only " + std::to_string(search.batch.size))
        .at("/min_micro_batch")
        .in_stage(search.written.pointer)
        .with_help("lower min_micro_batch, or set allow: bit, which never splits a batch");
  }
  if (const auto earlier = replayed_policy(context.earlier_step(), search.written, model_stage)) {
    PlannedStep replayed{*earlier, search.trace(*earlier).plan};
    if (replayed.plan.needed <= search.budget) {
      auto overrides = overrides_between(search.written, *earlier, search.batch);
      const std::string summary =
          overrides.empty() ? "the whole batch at once" : runner::override_text(overrides);
      replayed.plan.choice = {.overrides = std::move(overrides),
                              .exactness = "exact",
                              .summary = summary,
                              .whole = replayed.plan.needed,
                              .time_model = std::string(time_model_version()),
                              .is_replayed = true};
      return replayed;
    }
    PlannedStep anew = choose_policy(search);
    anew.plan.choice->summary += ", since the choice made when the run started no longer fits";
    return anew;
  }
  return choose_policy(search);
}

}  // namespace

PlannedStep plan(PolicySearch step, const std::string& model_stage, runner::PlanContext& context) {
  runner::MemoryPlan budgeted;
  set_budget(budgeted, step.written, context);
  step.budget = budgeted.budget.value_or(0);
  const auto plan_under = [&](const MemoryPolicy& policy) { return step.trace(policy).plan; };
  PlannedStep planned{step.written, {}};
  if (step.written.leaves_a_choice() && budgeted.budget)
    planned = resolve_policy(step, model_stage, context);
  else planned.plan = plan_under(planned.policy);
  runner::MemoryPlan& plan = planned.plan;
  plan.device =
      context.dry().device_model.empty() ? context.node().device : context.dry().device_model;
  set_budget(plan, planned.policy, context);
  add_option_effects(plan, planned.policy, step.written, step.batch, plan_under);
  const bool is_whole = plan.fits() && plan.choice && plan.choice->overrides.empty();
  if (is_whole) plan.alternatives.clear();  // the search examined only a few of them
  if ((context.dry().wants_alternatives || !plan.fits()) && plan.alternatives.empty())
    add_alternatives(plan, planned.policy, step.batch, plan_under);
  return planned;
}

}  // namespace stages
