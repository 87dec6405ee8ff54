#pragma once

#include <cstdint>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/artifact/loader.h"

namespace stages {

class RankGroup;

/// Divides `rows` among the ranks in whole batches, so that all batches are the same as with one
/// rank. `group` is null if there is only one rank, which then has all rows.
std::vector<RowRange> shares_of_batches(std::int64_t rows, std::int64_t batch_size,
                                        const RankGroup* group);

/// Returns this rank's share of shares_of_batches(), which may be empty.
RowRange own_share_of_batches(std::int64_t rows, std::int64_t batch_size, const RankGroup* group);

/// Returns the samples of a share, in order.
SampleOrder order_of(const RowRange& rows);

}  // namespace stages
