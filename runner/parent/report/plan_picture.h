#pragma once

#include <string>

#include "runner/shared/stage/memory_plan.h"

namespace runner {

/// memory_plan.svg: the live bytes over a step as a line, the phases below it, and the budget as a dashed line. `name`
/// is the recipe's. The curve has at least one point.
std::string draw_plan(const MemoryPlan& plan, const std::string& name);

}  // namespace runner
