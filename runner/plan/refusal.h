#pragma once

#include "runner/diagnostic.h"
#include "runner/plan/memory_plan.h"

namespace runner {

/// That a node does not fit, and the cheapest way in which it would. Without a place.
Diagnostic does_not_fit(const MemoryPlan& plan);

}  // namespace runner
