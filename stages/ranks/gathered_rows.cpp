#include "stages/ranks/gathered_rows.h"

#include <cassert>
#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

/// The columns in which a rank describes its rows; the sizes of a row follow.
enum RowsColumn : std::int64_t { kHasRows, kRowCount, kRowType, kRowDimensions, kRowSizes };

constexpr std::int64_t kMostRowDimensions = 8;

/// Returns an int64 row that describes `own`.
at::Tensor description_of(const at::Tensor& own) {
  at::Tensor description = torch::zeros({1, kRowSizes + kMostRowDimensions}, torch::kLong);
  if (!own.defined()) return description;
  assert(own.dim() <= kMostRowDimensions);
  auto* const column = description.mutable_data_ptr<std::int64_t>();
  column[kHasRows] = 1;
  column[kRowCount] = own.size(0);
  column[kRowType] = static_cast<std::int64_t>(own.scalar_type());
  column[kRowDimensions] = own.dim() - 1;
  for (std::int64_t i = 1; i < own.dim(); ++i) column[kRowSizes + i - 1] = own.size(i);
  return description;
}

}  // namespace

at::Tensor gathered_rows(const at::Tensor& own, RankGroup& group) {
  const at::Tensor described = group.gather(description_of(own)).rows;
  const auto about = described.accessor<std::int64_t, 2>();
  std::int64_t known = -1, count = 0;
  for (std::int64_t rank = 0; rank < group.size(); ++rank) {
    if (about[rank][kHasRows] != 0) known = rank;
    count += about[rank][kRowCount];
  }
  if (known < 0) return {};
  std::vector<std::int64_t> shape = {count};
  for (std::int64_t i = 0; i < about[known][kRowDimensions]; ++i)
    shape.push_back(about[known][kRowSizes + i]);
  at::Tensor all;
  group.together(
      [&] { all = torch::empty(shape, static_cast<at::ScalarType>(about[known][kRowType])); });
  std::int64_t begin = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    const at::Tensor part = all.narrow(0, begin, about[rank][kRowCount]);
    begin += part.size(0);
    if (part.numel() == 0) continue;
    if (rank == group.rank()) part.copy_(own);
    group.broadcast(part.view(-1).view(torch::kByte), rank);
  }
  return all;
}

}  // namespace stages
