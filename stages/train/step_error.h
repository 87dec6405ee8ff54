#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/error/stage_error.h"
#include "stages/artifact/dataset.h"
#include "stages/train/step_numbers.h"
#include "stages/train/step_plan.h"
#include "stages/train/training_kind.h"

namespace stages {

/// A step whose numbers may still be on their way: what an error about it must be able to say.
struct StepPlace {
  std::int64_t epoch = 0, step = 0;   ///< 1-based
  std::int64_t units = 0;             ///< of the batch
  StepPlan plan;                      ///< how it was cut
  std::vector<std::int64_t> indices;  ///< the batch's samples in the dataset
};

/// Throws runner::StageError kLossNotFinite, naming the step and its samples, if the numbers say so; waits for them.
void refuse_not_finite(const StepNumbers& numbers, const StepPlace& place, const Dataset& dataset);

/// "step 10, in epoch 2: the loss is 1.7e+29, where 1.4 is usual, on 'a.jpg'": `what` is "the loss".
std::string disproportionate(const std::string& what, double number, std::optional<double> usual,
                             const StepPlace& place, const Dataset& dataset);

/// Throws runner::StageError: the gradients have overflowed in fp16 for many steps, though the loss's scale shrank.
[[noreturn]] void refuse_endless_overflow(const StepPlace& place, double scale);

/// Throws runner::StageError naming the sample if `step` finds a bad unit in a batch on the host.
void refuse_bad_unit(const TrainingStep& step, const Dataset& dataset, const Batch& batch);

}  // namespace stages
