#include "stages/memory/held_memory.h"

namespace stages {

void add_held_memory(runner::MemoryPlan& plan, at::DeviceType device, const Dataset& dataset) {
  const auto* holder = dynamic_cast<const HoldsMemory*>(&dataset);
  if (!holder || device != at::kCPU) return;
  plan.terms.push_back({"data", holder->held_bytes(), "kept in memory, all its parts"});
  plan.predicted += holder->held_bytes();
}

}  // namespace stages
