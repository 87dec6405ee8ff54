#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/model/vision_tower.h"

namespace stages {

/// The options of model.clip_vision, as the recipe gives them.
struct ClipVisionConfig {
  std::string pointer;       ///< where they stand, "/model": build() runs inside another stage
  VisionTowerOptions tower;  ///< its image_size is left to the next field
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

  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
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

// What a model of square images that are cut into patches asks of its data. All throw
// runner::StageError, which blames an option below `pointer`.

/// Height and width of the data's images, which are square, of three channels, a multiple of
/// `patch_size`, and of `wanted` where a model says that.
std::int64_t fitting_image_size(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                                std::int64_t patch_size, const std::string& pointer);

/// How many logits a classifier has for such data: one a class, of which there are some, and
/// `wanted` where a model says that; or one for a pair, and then `wanted` is the number that the
/// two are chosen from.
std::int64_t fitting_classes(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                             const std::string& pointer);

/// "image_size 225 is not a multiple of patch_size 16".
std::string not_a_multiple(std::string_view what, std::int64_t value, std::string_view by,
                           std::int64_t divisor);

}  // namespace stages
