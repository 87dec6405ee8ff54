#pragma once

#include <cstdint>

#include "stages/artifact/dataset.h"
#include "stages/train/trainer_options.h"
#include "stages/train/training_kind.h"

namespace stages {

/// How a training reads `train` in batches of `batch_size`: as the data says it, but for a last batch of an epoch that
/// has fewer samples than the step can learn from, which is left out.
LoaderOptions training_loader(const Dataset& train, const TrainingStep& step, std::int64_t batch_size);

/// The optimizer steps of a whole training on `size` samples, of which an epoch leaves out an incomplete last batch
/// where `drops_last`. Throws runner::StageError where an epoch has no batch, and where the schedule does not fit.
std::int64_t training_length(std::int64_t size, bool drops_last, const TrainerOptions& options);

}  // namespace stages
