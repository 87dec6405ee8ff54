#pragma once

#include <cstdint>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/loader.h"

namespace stages {

/// What a rank needs of the rows of a batch that other ranks compute.
enum class RowsOfOthers {
  kSmall,  ///< tensors of at most kSmallRow bytes a row, such as labels; the rest are zeros
  kAll,
};
inline constexpr std::int64_t kSmallRow = 4096;

/// Each of several ranks reads its share of a batch and gets from the others what it needs of
/// theirs. Shares are those of share_of() with `in_group`. If a sample is skipped, the shares of
/// that batch move, so all ranks get all of it. `ranks` is borrowed, with its group.
PartialReading divided_reading(const runner::RankOfRun& ranks, std::int64_t in_group,
                               RowsOfOthers needed);

}  // namespace stages
