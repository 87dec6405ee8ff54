#pragma once

#include <string>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/memory_plan.h"

namespace runner {

/// The exception being handled, which a stage has thrown, as an error at the node's place in the recipe. Of a text of
/// many lines, such as LibTorch's with its backtrace, the first is for the user; all of it goes to stderr, the log.
Diagnostic stage_failure(const Node& node);

/// The same where the exception may tell of several failures.
Diagnostics stage_failures(const Node& node);

/// Of a plan that does not fit, the first of its alternatives that is one and does; null: none does.
const PlanAlternative* cheapest_that_fits(const MemoryPlan& plan);

/// The refusal of a plan that does not fit its budget: by how many bytes, what is alive at the peak, and the cheapest
/// change that would make it fit. `pointer` is the node's place in the recipe.
Diagnostic does_not_fit(const MemoryPlan& plan, std::string pointer = "");

}  // namespace runner
