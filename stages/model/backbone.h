#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <c10/core/ScalarType.h>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/weights/pretrained_config.h"
#include "stages/artifact/dataset.h"
#include "stages/model/initializer.h"
#include "stages/model/pretrained.h"
#include "stages/model/vision_tower.h"
#include "stages/weights/saved_weights.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// The family of vision transformers that a backbone belongs to.
enum class BackboneFamily { kClip, kVit, kDinov2 };

/// If the backbone of `parent` is of one of these kinds, which belong to other models, adds an
/// error to `parent` and returns true. `why` completes the sentence "a backbone 'vit' …".
bool refuse_backbone(runner::ConfigReader& parent, std::initializer_list<std::string_view> kinds,
                     const std::string& why, const std::string& help);

/// The options of schemas/model/backbone: the network that turns an image into features.
struct BackboneConfig {
  std::string pointer;  ///< location in the recipe, such as "/model/backbone", for errors in
                        ///< build(), which runs inside another stage
  BackboneFamily family = BackboneFamily::kClip;
  std::optional<std::string> weights;  ///< reference to the weights (saved_weights.h); nullopt:
                                       ///< random weights
  std::optional<std::string> weights_entry;    ///< the weights to read if the file has several
  VisionTowerOptions tower;                    ///< image_size is in the next field instead
  std::optional<std::int64_t> image_size;      ///< nullopt: the size of the data's images
  std::optional<std::int64_t> projection_dim;  ///< nullopt: no projection
  Feature feature = Feature::kPooled;
  std::optional<Activation> hidden_act;  ///< nullopt: as in the config next to the weights
  std::optional<double> layer_norm_eps;  ///< nullopt: as in the config next to the weights
  PositionResize position_resize = PositionResize::kBicubic;
  bool has_timm_names = false;
  at::ScalarType dtype = at::kFloat;  ///< type of the frozen weights

  /// Returns the layout of the names that adapters use to select the backbone's layers.
  WeightLayout layout() const;
  InitializerOptions initializer() const;
};

/// Reads the `backbone` section of a model's options; `reader` collects the errors. Checks that the
/// weights exist, but does not read them.
BackboneConfig read_backbone(runner::ConfigReader& reader);

/// Returns `backbone` with its unresolved options filled in from the config next to its weights.
/// Throws runner::StageError at the first option that the recipe and the config set to different
/// values, or that neither sets.
BackboneConfig resolved(BackboneConfig backbone,
                        const std::optional<runner::PretrainedConfig>& config);

/// Returns the dimensions in which `backbone` differs from the weights, such as "hidden_size is
/// 768, but 1024 in the weights; …"; empty if there are none.
std::string differing_sizes(const BackboneConfig& backbone, const runner::PretrainedConfig& sizes);

/// Returns the options of a classifier with `classes` classes for this data. Throws
/// runner::StageError if the backbone does not suit the data. hidden_act and layer_norm_eps must be
/// set.
ImageClassifierOptions classifier_on(const BackboneConfig& backbone, const DatasetDescription& data,
                                     std::int64_t classes);

// These functions read the weights that a backbone's `weights` option specifies; it must be set.
// They throw runner::StageError at that option.

/// Returns the shapes of the weights, without a digest, and the config next to them.
SavedWeights shapes_of_weights(const BackboneConfig& backbone);

/// Returns the SHA-256 of all bytes of the weights.
std::string sha256_of_weights(const BackboneConfig& backbone);

/// Parses the config next to the weights; nullopt if there is none. Throws if it does not describe
/// a CLIP, ViT or DINOv2 model.
std::optional<runner::PretrainedConfig> config_of_weights(
    const std::optional<nlohmann::json>& config, const BackboneConfig& backbone);

}  // namespace stages
