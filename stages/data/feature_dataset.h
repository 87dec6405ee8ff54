#pragma once

#include <memory>
#include <string>

#include "stages/artifact/files_on_disk.h"
#include "stages/data/feature_table.h"

namespace stages {

/// The features of a dataset in place of its images: "features" float32, and what its samples hold besides. Whoever
/// trains on it builds its model for the dataset that they are of (DatasetDescription::source).
class FeatureDataset final : public Dataset, public FilesOnDisk {
 public:
  /// Where `table` has fewer rows than `source` samples, as in a smoke run, they are given again and again.
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
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override { return source_->captions_of_classes(); }
  /// Its table.
  runner::HeldMemory held() const override;

 private:
  const std::shared_ptr<const Dataset> source_;
  const FeatureTable table_;
  DatasetDescription description_;
};

}  // namespace stages
