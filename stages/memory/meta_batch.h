#pragma once

#include <cstdint>

#include "stages/artifact/dataset.h"
#include "stages/tensor/batch.h"

namespace stages {

/// `units` samples as `data` describes them, on the Meta device: shapes and types without values. Their indices are 0,
/// 1, 2 …
Batch meta_batch(const DatasetDescription& data, std::int64_t units);

/// The bytes of the tensors of one sample.
std::int64_t sample_bytes(const DatasetDescription& data);

}  // namespace stages
