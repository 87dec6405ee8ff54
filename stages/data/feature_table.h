#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "stages/artifact/dataset.h"

namespace stages {

/// What the frozen part of a model makes of a dataset: a row for each sample, in the dataset's order.
struct FeatureTable {
  at::Tensor present;    ///< (n) bool on the CPU; false: the sample is to be skipped, and its rows are zero
  NamedTensors tensors;  ///< "features" (n, …) float32 or bfloat16, and beside it what samples hold besides "image"
};

/// The tensors of a sample of `data` that stay beside its features: all but "image".
std::vector<TensorSpec> kept_beside_features(const DatasetDescription& data);

/// Writes `table` as a safetensors file that appears whole or not at all. It remembers `data`, which the features are
/// of, and a digest of its numbers. Throws runner::StageError where the disk does not take it.
void write_features(const std::filesystem::path& path, const FeatureTable& table, const DatasetDescription& data);

/// Reads it back. Throws runner::StageError (kDamagedWeights) where the file is damaged or is not of such data.
FeatureTable read_features(const std::filesystem::path& path, const DatasetDescription& data);

}  // namespace stages
