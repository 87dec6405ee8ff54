#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"

namespace stages {

/// What the frozen part of a model makes of a dataset: a row for each sample, in the dataset's
/// order.
struct FeatureTable {
  at::Tensor
      present;  ///< (n) bool on the CPU; false: the sample is to be skipped, and its rows are zero
  NamedTensors tensors;  ///< "features" (n, …) float32 or bfloat16, and beside it what samples hold
                         ///< besides "image"
};

/// The tensors of a sample of `data` that stay beside its features: all but "image".
std::vector<TensorSpec> kept_with_features(const DatasetDescription& data);

/// Writes `table` as a safetensors file that appears whole or not at all. It remembers `data`,
/// which the features are of, and a digest of its numbers. Throws runner::StageError where the disk
/// does not take it.
void write_features(const std::filesystem::path& path, const FeatureTable& table,
                    const DatasetDescription& data);

/// Reads it back. Throws runner::StageError (kDamagedWeights) where the file is damaged or is not
/// of such data.
FeatureTable read_features(const std::filesystem::path& path, const DatasetDescription& data);

/// The features of a dataset in place of its images: "features" float32, and what its samples hold
/// besides. Whoever trains on it builds its model for the dataset that they are of
/// (DatasetDescription::source).
class FeatureDataset final : public Dataset, public FilesOnDisk {
 public:
  /// Where `table` has fewer rows than `source` samples, as in a smoke run, they are given again
  /// and again.
  FeatureDataset(std::shared_ptr<const Dataset> source, FeatureTable table);

  DatasetDescription describe() const override { return description_; }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override { return source_->sample_name(index); }
  std::filesystem::path root() const override {
    const auto* const files = dynamic_cast<const FilesOnDisk*>(source_.get());
    return files ? files->root() : std::filesystem::path();
  }
  /// As the source's, without threads: there is nothing to read.
  LoaderOptions loader() const override;
  std::vector<std::int64_t> labels() const override { return source_->labels(); }
  std::vector<std::int64_t> captions() const override { return source_->captions(); }
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override {
    return source_->captions_of_classes();
  }
  /// Its table.
  runner::HeldMemory held() const override;

 private:
  const std::shared_ptr<const Dataset> source_;
  const FeatureTable table_;
  DatasetDescription description_;
};

}  // namespace stages
