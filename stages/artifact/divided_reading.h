#pragma once

#include <cstdint>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/loader.h"

namespace stages {

/// What a rank needs from the batch rows that other ranks read.
enum class RowsOfOthers {
  kSmall,  ///< only tensors with at most kSmallRow bytes per row, such as labels; the rest are
           ///< zeros
  kAll,
};
inline constexpr std::int64_t kSmallRow = 4096;

/// Divides the reading of each batch among ranks. Each rank reads its share, as computed by
/// share_of() with `in_group`, and gets the `needed` rows from the other ranks. If a sample is
/// skipped, shares shift, so all ranks get the whole batch. `ranks` and its group are borrowed.
PartialReading divided_reading(const runner::RankOfRun& ranks, std::int64_t in_group,
                               RowsOfOthers needed);

}  // namespace stages
