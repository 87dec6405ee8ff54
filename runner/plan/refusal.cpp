#include "runner/plan/refusal.h"

#include <string>

namespace runner {

Diagnostic does_not_fit(const MemoryPlan& plan) {
  return {ErrorCode::kOutOfMemory, {}, "", plan.node + " needs " + std::to_string(plan.predicted) + " bytes", ""};
}

}  // namespace runner
