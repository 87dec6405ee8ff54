#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/memory/policy.h"
#include "stages/train/step_execution.h"
#include "stages/train/trainer_options.h"

namespace stages {

/// Returns a line for each option that has no effect on a training run of `planned_steps` steps,
/// with the reason.
std::vector<std::string> idle_options(const TrainerOptions& options, const MemoryPolicy& policy,
                                      const StepExecution& execution, std::int64_t planned_steps);

}  // namespace stages
