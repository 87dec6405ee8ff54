#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "stages/artifact/dataset.h"
#include "stages/tensor/batch.h"

namespace stages {

/// The first `units` samples of `data` in `order` that can be read, for real steps; again from the
/// first if there are fewer. `check` sees each before it is used. Throws runner::StageError if none
/// can be read.
Batch first_units(const std::shared_ptr<const Dataset>& data, const SampleOrder& order,
                  std::int64_t units, const std::function<void(const Batch&)>& check = {});

/// The same units in memory of their own.
Batch copied(const Batch& batch);

}  // namespace stages
