#pragma once

#include <string>

#include "runner/error/diagnostic.h"
#include "runner/stage/memory_plan.h"

namespace runner {

/// Of a plan that does not fit, the first of its alternatives that is one and does; null: none does.
const PlanAlternative* cheapest_that_fits(const MemoryPlan& plan);

/// The refusal of a plan that does not fit its budget: by how many bytes, what is alive at the peak, and the cheapest
/// change that would make it fit. `pointer` is the node's place in the recipe.
Diagnostic does_not_fit(const MemoryPlan& plan, std::string pointer = "");

}  // namespace runner
