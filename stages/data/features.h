#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/artifact/grouped_samples.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/targets.h"

namespace stages {

/// The outputs of a model's frozen part for a dataset, one row per sample, in dataset order.
struct FeatureTable {
  /// (n) bool on the CPU; false: the sample was skipped, and its rows are zeros.
  at::Tensor present;
  /// "features" (n, …) float32 or bfloat16, and all of the samples' tensors except "image".
  NamedTensors tensors;
};

/// Returns which tensors of a sample of `data` are stored alongside its features: all except
/// "image".
std::vector<TensorSpec> kept_with_features(const DatasetDescription& data);

/// Writes `table` atomically to a safetensors file, together with a digest of its values and
/// `data`, the description of the dataset. Throws runner::StageError if the write fails.
void write_features(const std::filesystem::path& path, const FeatureTable& table,
                    const DatasetDescription& data);

/// Reads a file written by write_features(). Throws runner::StageError (kDamagedWeights) if the
/// file is damaged or was written for data other than `data`.
FeatureTable read_features(const std::filesystem::path& path, const DatasetDescription& data);

/// A dataset of features instead of images: each sample contains "features" (float32) and the other
/// tensors of the original sample. A model that trains on it is built for the original image
/// dataset (DatasetDescription::source).
class FeatureDataset final : public Dataset,
                             public FilesOnDisk,
                             public ShownAsImages,
                             public CountedLabels,
                             public KnownTargets,
                             public GroupedSamples {
 public:
  /// Rows are repeated if `table` has fewer rows than `source` has samples, as in a smoke run.
  FeatureDataset(std::shared_ptr<const Dataset> source, FeatureTable table);

  DatasetDescription describe() const override { return description_; }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override { return source_->sample_name(index); }
  std::string group_of(std::int64_t index) const override {
    const auto* const groups = dynamic_cast<const GroupedSamples*>(source_.get());
    return groups ? groups->group_of(index) : "";
  }
  std::filesystem::path root() const override {
    const auto* const files = dynamic_cast<const FilesOnDisk*>(source_.get());
    return files ? files->root() : std::filesystem::path();
  }
  /// Shows the images from which the features were computed.
  bool shows_images() const override { return shown_as_images(*source_) != nullptr; }
  std::vector<std::uint8_t> jpeg_of(std::int64_t index, int side) const override {
    return shown_as_images(*source_)->jpeg_of(index, side);
  }
  /// The source's loader options, but without worker threads, since no files are read.
  LoaderOptions loader() const override;
  std::vector<std::int64_t> labels() const override { return source_->labels(); }
  std::vector<std::int64_t> label_counts() const override { return stages::label_counts(*source_); }
  at::Tensor targets() const override { return known_targets(*source_); }
  std::vector<std::int64_t> captions() const override { return source_->captions(); }
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override {
    return source_->captions_of_classes();
  }
  /// Returns the memory occupied by the table.
  runner::HeldMemory held() const override;

 private:
  const std::shared_ptr<const Dataset> source_;
  const FeatureTable table_;
  DatasetDescription description_;
};

}  // namespace stages
