#pragma once

#include <optional>
#include <string>

#include "stages/artifact/model.h"
#include "stages/model/image_classifier.h"

namespace stages {

/// The options of model.clip_vision, as the recipe gives them.
struct ClipVisionConfig {
  std::string pointer;                         ///< where they stand, "/model": build() runs inside another stage
  VisionTowerOptions tower;                    ///< its image_size is left to the next field
  std::optional<std::int64_t> image_size;      ///< nullopt: as large as the data's
  std::optional<std::int64_t> projection_dim;  ///< nullopt: no projection
  std::optional<std::int64_t> num_classes;     ///< nullopt: as many as the data's
  Feature feature = Feature::kPooled;
  double dropout = 0;
  double initializer_range = 0;
  double initializer_factor = 0;
};

/// A CLIP vision tower with a classification head. build() makes an ImageClassifier.
class ClipVision : public Model, public ShrinkableModel {
 public:
  explicit ClipVision(const ClipVisionConfig& config) : config_(config) {}

  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data, std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Reads "image" (n, 3, size, size) and gives {"logits", "features"}.
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  bool mixes_samples() const override { return false; }
  Shrunken shrunken(const DatasetDescription& data) const override;

  /// What build() will make. Throws runner::StageError where the model does not suit the data.
  ImageClassifierOptions fit(const DatasetDescription& data) const;

 private:
  const ClipVisionConfig config_;
};

}  // namespace stages
