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
  std::string pointer;       ///< place in the recipe, "/model": build() runs inside another stage
  VisionTowerOptions tower;  ///< image_size is in the next field instead
  std::optional<std::int64_t> image_size;      ///< nullopt: the size of the data's images
  std::optional<std::int64_t> projection_dim;  ///< nullopt: no projection
  std::optional<std::int64_t> num_classes;     ///< nullopt: the number of the data's classes
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

  /// The options of what build() will make. Throws runner::StageError if the model does not suit
  /// the data.
  ImageClassifierOptions fit(const DatasetDescription& data) const;

 private:
  const ClipVisionConfig config_;
};

// What a model of square images that are cut into patches requires of its data. All throw
// runner::StageError at an option below `pointer`.

/// Height and width of the data's images. They must be square, with three channels, of a size that
/// is a multiple of `patch_size` and equals `wanted` if the model gives one.
std::int64_t fitting_image_size(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                                std::int64_t patch_size, const std::string& pointer);

/// The number of logits of a classifier for such data: one per class, which must exist and number
/// `wanted` if the model gives that. For pairs it is one logit, and `wanted` is the number from
/// which the two are chosen.
std::int64_t fitting_classes(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                             const std::string& pointer);

/// "image_size 225 is not a multiple of patch_size 16".
std::string not_a_multiple(std::string_view what, std::int64_t value, std::string_view by,
                           std::int64_t divisor);

}  // namespace stages
