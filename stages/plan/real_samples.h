#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "stages/artifact/dataset.h"
#include "stages/tensor/batch.h"

namespace stages {

/// Returns the first `units` readable samples of `data` in `order`, for real steps. If there are
/// fewer, it starts over from the first one. `check` is called with each sample before it is used.
/// Throws runner::StageError if no sample can be read.
Batch first_units(const std::shared_ptr<const Dataset>& data, const SampleOrder& order,
                  std::int64_t units, const std::function<void(const Batch&)>& check = {});

/// Returns a copy of the batch with its own memory.
Batch copied(const Batch& batch);

}  // namespace stages
