#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/artifact/loader.h"
#include "stages/data/features.h"

namespace stages {

class RankGroup;

/// Adds a tensor of zeros with rows of shape `shape` unless the table already has a tensor with
/// this name.
void add_column(FeatureTable& table, const std::string& name, at::IntArrayRef shape,
                at::ScalarType type);

/// Sends the rows that each rank has computed for its share to all ranks. The features are of type
/// `storage`. If no rank could read a sample, the table remains without features.
void exchange_rows(FeatureTable& table, const std::vector<RowRange>& shares,
                   const DatasetDescription& data, at::ScalarType storage, RankGroup& group);

}  // namespace stages
