#include "stages/data/feature_shares.h"

#include <algorithm>

#include <torch/types.h>

#include "stages/ranks/rank_group.h"

namespace stages {

void add_column(FeatureTable& table, const std::string& name, at::IntArrayRef shape,
                at::ScalarType type) {
  if (table.tensors.contains(name)) return;
  std::vector<std::int64_t> whole = shape.vec();
  whole.insert(whole.begin(), table.present.size(0));
  table.tensors.set(name, torch::zeros(whole, type));
}

namespace {

/// Returns the shape of a sample's features, even on a rank that has read none; returns an empty
/// shape if no rank has read any.
std::vector<std::int64_t> shape_on_any_rank(const FeatureTable& table, RankGroup& group) {
  constexpr std::int64_t kMostDimensions = 8;
  at::Tensor own = torch::zeros({1, kMostDimensions}, at::kLong);
  if (table.tensors.contains("features")) {
    const at::IntArrayRef sizes = table.tensors.at("features").sizes().slice(1);
    std::copy(sizes.begin(), sizes.end(), own.mutable_data_ptr<std::int64_t>());
  }
  const at::Tensor all = std::get<0>(group.gather(own).rows.max(0)).contiguous();
  const auto* const first = all.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> shape(first, first + kMostDimensions);
  std::erase(shape, 0);
  return shape;
}

}  // namespace

void exchange_rows(FeatureTable& table, const std::vector<RowRange>& shares,
                   const DatasetDescription& data, at::ScalarType storage, RankGroup& group) {
  const std::vector<std::int64_t> shape = shape_on_any_rank(table, group);
  if (shape.empty()) return;
  add_column(table, "features", shape, storage);
  for (const TensorSpec& spec : kept_with_features(data))
    add_column(table, spec.name, spec.shape, spec.dtype);
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const std::int64_t begin = shares[rank].begin, rows = shares[rank].end - begin;
    if (rows == 0) continue;
    const auto send = [&](const at::Tensor& column) {
      group.broadcast(column.narrow(0, begin, rows).view(-1).view(at::kByte),
                      static_cast<int>(rank));
    };
    send(table.present);
    for (const auto& [name, column] : table.tensors) send(column);
  }
}

}  // namespace stages
