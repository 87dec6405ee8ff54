#include "runner/execute/refusal.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "runner/text/bytes.h"

namespace runner {
namespace {

/// What stays for the whole of a training, however its batches are computed, and what it is called.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLasting = {
    {{"parameter", "weights"}, {"gradient", "gradients"}, {"optimizer_state", "optimizer state"}}};

/// From so many times as many operations on, a step is noticeably slower than its compute says.
constexpr double kNoticed = 1.5;

struct Lasting {
  std::string names;  ///< "weights, gradients and optimizer state"
  std::int64_t bytes = 0;
};

Lasting lasting(const MemoryPlan& plan) {
  Lasting result;
  std::vector<std::string_view> names;
  for (const auto& [owner, name] : kLasting) {
    const auto found = std::ranges::find(plan.owners, owner, &NamedBytes::name);
    if (found == plan.owners.end()) continue;
    names.push_back(name);
    result.bytes += found->bytes;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) result.names += i + 1 < names.size() ? ", " : " and ";
    result.names += names[i];
  }
  return result;
}

const PlanAlternative* smallest(const MemoryPlan& plan) {
  const PlanAlternative* least = nullptr;
  for (const PlanAlternative& other : plan.alternatives) {
    if (other.refused.empty() && (!least || other.predicted < least->predicted)) least = &other;
  }
  return least;
}

std::string advice(const MemoryPlan& plan) {
  if (const PlanAlternative* other = cheapest_that_fits(plan)) {
    return override_text(other->overrides) + " fits: " + size_text(other->predicted) +
           (other->relative_operations > kNoticed
                ? ", and starts " + std::to_string(std::lround(other->relative_operations)) +
                      " times as many operations"
                : "") +
           (other->exactness == "declared" ? ", and changes the training" : "");
  }
  if (const auto [names, bytes] = lasting(plan); bytes > *plan.budget)
    return names + " alone take " + size_text(bytes) + ": a larger budget, another device, or a smaller model";
  if (const PlanAlternative* other = smallest(plan); other && other->predicted < plan.predicted) {
    return "none of the alternatives fits; " + override_text(other->overrides) +
           " comes closest: " + size_text(other->predicted);
  }
  return "a larger budget, another device, a smaller batch_size, or smaller images";
}

}  // namespace

const PlanAlternative* cheapest_that_fits(const MemoryPlan& plan) {
  const auto fits = [&](const PlanAlternative& other) {
    return other.refused.empty() && (!plan.budget || other.predicted <= *plan.budget);
  };
  const auto found = std::ranges::find_if(plan.alternatives, fits);
  return found == plan.alternatives.end() ? nullptr : &*found;
}

Diagnostic does_not_fit(const MemoryPlan& plan, std::string pointer) {
  assert(!plan.fits());
  Diagnostic refusal{ErrorCode::kOutOfMemory,
                     {},
                     std::move(pointer),
                     "'" + plan.node + "' needs " + size_text(plan.predicted) + " at its peak, " +
                         (plan.held.empty() ? "" : held_text(plan) + ", ") + "and may use " + size_text(*plan.budget) +
                         " (" + plan.budget_from + "): " + size_text(plan.predicted - *plan.budget) + " too much",
                     advice(plan)};
  if (!plan.largest.empty())
    refusal.notes.push_back({{}, "the largest tensor at the peak: " + tensor_text(plan.largest.front())});
  for (const NamedBytes& one : plan.held)
    refusal.notes.push_back({{}, "held by an earlier node: " + one.name + ", " + size_text(one.bytes)});
  return refusal;
}

}  // namespace runner
