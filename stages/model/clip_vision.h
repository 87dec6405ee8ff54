#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/model/vision_tower.h"

namespace stages {

/// The options of model.clip_vision, as written in the recipe.
struct ClipVisionConfig {
  std::string pointer;       ///< location in the recipe, such as "/model", for errors in build(),
                             ///< which runs inside another stage
  VisionTowerOptions tower;  ///< image_size is in the next field instead
  std::optional<std::int64_t> image_size;      ///< nullopt: the size of the data's images
  std::optional<std::int64_t> projection_dim;  ///< nullopt: no projection
  std::optional<std::int64_t> num_classes;     ///< nullopt: the number of classes in the data
  Feature feature = Feature::kPooled;
  double dropout = 0;
  double initializer_range = 0;
  double initializer_factor = 0;
};

/// A CLIP vision tower with a classification head. build() creates an ImageClassifier.
class ClipVision : public Model, public ShrinkableModel {
 public:
  explicit ClipVision(const ClipVisionConfig& config) : config_(config) {}

  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Reads "image" (n, 3, size, size) and returns {"logits", "features"}.
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  bool mixes_samples() const override { return false; }
  bool builds_in_shards() const override { return true; }
  bool has_ordinal_head(OrdinalHead /*head*/) const override { return true; }
  Shrunken shrunken(const DatasetDescription& data) const override;

  /// Returns the options of the network that build() creates for `data`. Throws runner::StageError
  /// if the model does not suit the data.
  ImageClassifierOptions fit(const DatasetDescription& data) const;

 private:
  std::shared_ptr<ImageClassifier> make(const DatasetDescription& data, c10::Device device) const;

  const ClipVisionConfig config_;
};

// These functions check the data for models that cut square images into patches. They throw
// runner::StageError at an option below `pointer`.

/// Returns the height and width of the data's images. The images must be square and have three
/// channels; their size must be a multiple of `patch_size`, and equal to `wanted` if that is set.
std::int64_t fitting_image_size(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                                std::int64_t patch_size, const std::string& pointer);

/// Returns the number of logits of a classifier for this data, one per class. The data must have
/// classes, and exactly `wanted` of them if that is set. For a class pair there is one logit, and
/// `wanted` is the number of classes from which the pair was chosen.
std::int64_t fitting_classes(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                             const std::string& pointer);

/// Returns "image_size 225 is not a multiple of patch_size 16".
std::string not_a_multiple(std::string_view what, std::int64_t value, std::string_view by,
                           std::int64_t divisor);

}  // namespace stages
