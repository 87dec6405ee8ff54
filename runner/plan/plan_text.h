#pragma once

#include <string>
#include <vector>

#include "runner/plan/memory_plan.h"
#include "runner/plan/sparkline.h"

namespace runner {

/// A plan for a person: what a node needs and of what budget, when, whose it is, what the recipe's options do to it
/// and what else could be done. Every line ends with a newline.
std::string plan_text(const MemoryPlan& plan, const TextStyle& style);

/// "memory.micro_batch=8 memory.two_pass=on"; "as it is" for none.
std::string override_text(const std::vector<std::string>& overrides);

/// "layer1.0.conv1 (105, 64, 112, 112) float32, 321.6 MiB"; of what has no name, its owner.
std::string tensor_text(const AliveTensor& tensor);

}  // namespace runner
