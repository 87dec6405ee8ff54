#include "stages/plan/real_steps.h"

#include <exception>
#include <string_view>

#include <c10/util/Exception.h>

#include "runner/shared/error/stage_error.h"
#include "stages/machine/device.h"
#include "stages/plan/memory_budget.h"
#include "stages/plan/plan_forward.h"
#include "stages/plan/recovery.h"
#include "stages/random/generator_state.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

bool was_raised_by_user = false;  // whether user code raised the error of the last failed request
                                  // to Python

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

void set_raised_by_user(bool was_raised) { was_raised_by_user = was_raised; }

std::string why_not_dry() {
  try {
    throw;
  } catch (const StageError& error) {
    if (error.code != ErrorCode::kStageFailed || !was_raised_by_user) throw;
    return error.what();
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    return first_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    return first_line(error.what());
  }
}

void check_may_measure(const std::string& why, const runner::PlanContext& context) {
  if (!context.dry().device_model.empty()) {
    throw StageError(ErrorCode::kMeasuredPlan,
                     "planning needs real steps on " + context.dry().device_model +
                         ", which this machine does not have, because a dry run fails: " + why)
        .with_help(
            "plan on a machine with this GPU; or create new tensors on the inputs' device, and use "
            "torch.where instead of branching on values and indexing with masks");
  }
  if (context.dry().is_strict) {
    throw StageError(ErrorCode::kMeasuredPlan,
                     "planning needs real steps because a dry run fails: " + why)
        .with_help(
            "create new tensors on the inputs' device, and use torch.where instead of branching on "
            "values and indexing with masks; or leave out --strict");
  }
}

void do_for_plan(const MemoryPolicy& policy, const runner::PlanContext& context,
                 const std::function<void()>& work) {
  const at::Device device{context.node().device};
  const GeneratorStates generators = generator_states(device);
  runner::MemoryPlan budgeted;
  set_budget(budgeted, policy, context);
  std::int64_t budget = memory_budget(policy, device);
  if (budgeted.budget) budget = std::min(budget, *budgeted.budget);
  try {
    const ScopedMemoryBudget limit(budget, device);
    work();
  } catch (const std::exception& error) {
    set_generator_states(generators);
    if (!is_out_of_memory(error, device)) throw;
    const std::string what = in_words(memory_incident(device));
    clear_after_out_of_memory(device);
    throw StageError(ErrorCode::kOutOfMemory,
                     "planning had to run real steps, but even with as few samples as possible "
                     "they ran " +
                         what)
        .with_help("use a smaller model or smaller samples, or more memory");
  }
  set_generator_states(generators);
  clear_after_out_of_memory(device);
}

}  // namespace stages
