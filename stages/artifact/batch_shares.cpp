#include "stages/artifact/batch_shares.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "stages/ranks/rank_group.h"

namespace stages {

std::vector<RowRange> shares_of_batches(std::int64_t rows, std::int64_t batch_size,
                                        const RankGroup* group) {
  if (!group) return {{0, rows}};
  std::vector<RowRange> shares;
  const std::int64_t batches = (rows + batch_size - 1) / batch_size;
  for (int rank = 0; rank < group->size(); ++rank) {
    const Share share = share_of(batches, /*in_group=*/1, rank, group->size());
    const std::int64_t begin = std::min(share.begin * batch_size, rows);
    shares.push_back({begin, share.counts ? std::min(share.end * batch_size, rows) : begin});
  }
  return shares;
}

RowRange own_share_of_batches(std::int64_t rows, std::int64_t batch_size, const RankGroup* group) {
  const std::size_t own = group ? static_cast<std::size_t>(group->rank()) : 0;
  return shares_of_batches(rows, batch_size, group)[own];
}

SampleOrder order_of(const RowRange& rows) {
  if (rows.begin == 0) return sequential_order(rows.end);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(rows.end - rows.begin));
  std::iota(indices.begin(), indices.end(), rows.begin);
  return indices;
}

}  // namespace stages
