#pragma once

#include <string>
#include <vector>

#include "runner/stage/memory_plan.h"
#include "runner/report/sparkline.h"

namespace runner {

/// A plan for a person: what a node needs and of what budget, when, whose it is, what the recipe's options do to it
/// and what else could be done. Every line ends with a newline.
std::string plan_text(const MemoryPlan& plan, const TextStyle& style);

}  // namespace runner
