#pragma once

#include <cstdint>

#include "stages/train/trainer_options.h"

namespace stages {

/// The optimizer steps of a whole training on `size` samples, of which an epoch leaves out an incomplete last batch
/// where `drops_last`. Throws runner::StageError where an epoch has no batch, and where the schedule does not fit.
std::int64_t training_length(std::int64_t size, bool drops_last, const TrainerOptions& options);

}  // namespace stages
