#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "stages/artifacts.h"
#include "stages/train/training_step.h"

namespace stages {

/// How a batch is cut to fit the device, and in which number format it is run; the trainer obeys it.
struct StepPlan {
  std::int64_t micro_batch = 0;  ///< units run at once; 0: the whole batch
  Precision precision = Precision::kFp32;
};

/// The plan that `policy` asks for, for batches of at most `units`. Throws runner::StageError when such a cut would
/// train something else than the whole batch does.
StepPlan make_step_plan(const TrainingStep& step, const MemoryPolicy& policy, std::int64_t units);

/// For a checkpoint: what a training was run with.
nlohmann::json to_json(const StepPlan& plan);

/// How many parts a batch of `units` makes.
std::int64_t parts(const StepPlan& plan, std::int64_t units);

}  // namespace stages
