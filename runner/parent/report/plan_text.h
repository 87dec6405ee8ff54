#pragma once

#include <string>
#include <vector>

#include "runner/parent/report/sparkline.h"
#include "runner/shared/stage/certificate.h"
#include "runner/shared/stage/memory_plan.h"

namespace runner {

/// A plan for a person: what a node needs and of what budget, when, whose it is, what the recipe's options do to it
/// and what else could be done. Every line ends with a newline.
std::string plan_text(const MemoryPlan& plan, const TextStyle& style);

/// A certificate for a person: the relative error of each parameter's gradient, what else came out otherwise, and a
/// line that begins with PASS or FAIL.
std::string certificate_text(const Certificate& certificate);

}  // namespace runner
