#include "stages/memory/planned_budget.h"

#include <string>

#include "stages/machine/memory_meter.h"

namespace stages {

void set_budget(runner::MemoryPlan& plan, const MemoryPolicy& policy, const runner::PlanContext& context) {
  const auto hold_against = [&](std::int64_t bytes, std::string from) {
    if (plan.budget && *plan.budget <= bytes) return;
    plan.budget = bytes;
    plan.budget_from = std::move(from);
  };
  std::optional<runner::NamedBytes> whole = context.budget();
  if (!whole && context.device_model().empty()) {
    const at::Device device{std::string(context.device())};
    whole = {device.is_cpu() ? "the machine's memory" : "the GPU's memory", MemoryMeter(device).available()};
  }
  if (whole) {
    hold_against(whole->bytes, whole->name);
    hold_against(static_cast<std::int64_t>(static_cast<double>(whole->bytes) * policy.memory_fraction),
                 "memory_fraction of " + whole->name);
  }
  if (policy.budget) hold_against(*policy.budget, policy.pointer.substr(1) + ".budget");
}

}  // namespace stages
