#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"

namespace stages {

/// The outputs of a model's frozen part for a dataset: a row for each sample, in the dataset's
/// order.
struct FeatureTable {
  at::Tensor present;  ///< (n) bool on the CPU; false: the sample is skipped, and its rows are zero
  NamedTensors tensors;  ///< "features" (n, …) float32 or bfloat16, and the sample's tensors other
                         ///< than "image"
};

/// The tensors of a sample of `data` that are kept with its features: all but "image".
std::vector<TensorSpec> kept_with_features(const DatasetDescription& data);

/// Writes `table` as a safetensors file, atomically. The file stores `data`, the dataset of the
/// features, and a digest of its numbers. Throws runner::StageError if the disk refuses the write.
void write_features(const std::filesystem::path& path, const FeatureTable& table,
                    const DatasetDescription& data);

/// Reads it back. Throws runner::StageError (kDamagedWeights) if the file is damaged or belongs to
/// other data.
FeatureTable read_features(const std::filesystem::path& path, const DatasetDescription& data);

/// A dataset with features in place of its images: "features" float32, and the other tensors of its
/// samples. A model that trains on it is built for the dataset of the images
/// (DatasetDescription::source).
class FeatureDataset final : public Dataset, public FilesOnDisk {
 public:
  /// If `table` has fewer rows than `source` samples, as in a smoke run, rows are repeated.
  FeatureDataset(std::shared_ptr<const Dataset> source, FeatureTable table);

  DatasetDescription describe() const override { return description_; }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override { return source_->sample_name(index); }
  std::filesystem::path root() const override {
    const auto* const files = dynamic_cast<const FilesOnDisk*>(source_.get());
    return files ? files->root() : std::filesystem::path();
  }
  /// As the source's, without threads, since nothing is read.
  LoaderOptions loader() const override;
  std::vector<std::int64_t> labels() const override { return source_->labels(); }
  std::vector<std::int64_t> captions() const override { return source_->captions(); }
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override {
    return source_->captions_of_classes();
  }
  /// The memory of its table.
  runner::HeldMemory held() const override;

 private:
  const std::shared_ptr<const Dataset> source_;
  const FeatureTable table_;
  DatasetDescription description_;
};

}  // namespace stages
