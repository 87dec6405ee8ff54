#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "stages/memory/policy.h"
#include "stages/train/step_execution.h"
#include "stages/train/training_kind.h"

namespace stages {

/// What was known when a training ran out of memory.
struct OutOfMemory {
  /// A tensor that the training keeps from step to step.
  struct Owned {
    std::string owner, name;  ///< "parameter", "head.weight"
    const void* data = nullptr;
    std::int64_t bytes = 0;
  };
  std::int64_t step = 0;                ///< 1-based
  std::optional<RefusedBlock> refused;  ///< where a CountingAllocator refused it
  std::vector<Owned> owned;
  std::int64_t micro_batch = 0;  ///< 0: the whole batch
  std::int64_t batch_size = 0;
  bool can_be_cut = true;       ///< the batch, without changing the training
  std::string policy;           ///< where the recipe says it, "/memory"
  bool has_own_budget = false;  ///< the recipe sets budget or memory_fraction
  std::string cause;            ///< what was thrown
};

/// What was live, one line for each owner with its largest tensors, and for each phase with the sizes of what was made
/// in it and is nobody's.
std::vector<std::string> live_table(const OutOfMemory& what);

/// What is known of the step `step_number` of a training, in which memory ran out with `error`.
OutOfMemory look_at_out_of_memory(const std::exception& error, std::int64_t step_number, const TrainingStep& step,
                                  const StepExecution& execution, std::int64_t batch_size, const MemoryPolicy& policy);

/// Says what was tried when, and what to change.
runner::StageError out_of_memory_error(const OutOfMemory& what);

}  // namespace stages
