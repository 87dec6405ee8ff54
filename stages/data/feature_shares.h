#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/artifact/loader.h"
#include "stages/data/features.h"

namespace stages {

class RankGroup;

/// Adds a tensor of zeros with rows of `shape`, unless the table has one with this name.
void add_column(FeatureTable& table, const std::string& name, at::IntArrayRef shape,
                at::ScalarType type);

/// Gives all ranks the rows of each rank, which has computed those of its share. The features are
/// of type `storage`. If no rank could read a sample, the table remains without features.
void exchange_rows(FeatureTable& table, const std::vector<RowRange>& shares,
                   const DatasetDescription& data, at::ScalarType storage, RankGroup& group);

}  // namespace stages
