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

/// Which of the families of vision transformers a backbone is of.
enum class BackboneFamily { kClip, kVit };

/// True, and an error of `parent`, where its backbone is of one of these kinds, which another kind
/// of model takes. `why` goes on after "a backbone 'vit' ".
bool refuse_backbone(runner::ConfigReader& parent, std::initializer_list<std::string_view> kinds,
                     const std::string& why, const std::string& help);

/// The options of schemas/model/backbone: what turns an image into features.
struct BackboneConfig {
  std::string pointer;  ///< where they stand, "/model/backbone": build() runs inside another stage
  BackboneFamily family = BackboneFamily::kClip;
  std::optional<std::string> weights;          ///< a reference (saved_weights.h); nullopt: random
  std::optional<std::string> weights_entry;    ///< of them, where the file has several
  VisionTowerOptions tower;                    ///< its image_size is left to the next field
  std::optional<std::int64_t> image_size;      ///< nullopt: as large as the data's
  std::optional<std::int64_t> projection_dim;  ///< nullopt: no projection
  Feature feature = Feature::kPooled;
  std::optional<Activation> hidden_act;  ///< nullopt: as the config beside the weights says
  std::optional<double> layer_norm_eps;  ///< likewise
  PositionResize position_resize = PositionResize::kBicubic;
  bool has_timm_names = false;
  at::ScalarType dtype = at::kFloat;  ///< that the frozen weights are held in

  /// By whose names adapters choose its layers.
  WeightLayout layout() const;
  InitializerOptions initializer() const;
};

/// Reads the section `backbone` of a model's options. What is wrong becomes an error of `reader`.
/// Looks whether the weights are there, and reads none.
BackboneConfig read_backbone(runner::ConfigReader& reader);

/// `backbone` with what the config beside its weights says where it leaves that open. Throws
/// runner::StageError where the two contradict each other, of all options at the first of them, or
/// where neither says it.
BackboneConfig resolved(BackboneConfig backbone,
                        const std::optional<runner::PretrainedConfig>& config);

/// "hidden_size is 768, and theirs 1024; …": the sizes of `backbone` that differ from those of
/// weights; empty: none.
std::string differing_sizes(const BackboneConfig& backbone, const runner::PretrainedConfig& sizes);

/// The classifier of `classes` classes for such data. Throws runner::StageError where the backbone
/// does not suit them. hidden_act and layer_norm_eps must be settled.
ImageClassifierOptions classifier_on(const BackboneConfig& backbone, const DatasetDescription& data,
                                     std::int64_t classes);

// What lies where a backbone's `weights` lead, which must be given. All throw runner::StageError,
// which blames that option.

/// Of the weights the shapes alone, without a digest, and the config beside them.
SavedWeights shapes_of_weights(const BackboneConfig& backbone);

/// The digest of all their bytes.
std::string sha256_of_weights(const BackboneConfig& backbone);

/// What the config beside the weights says, where there is one; it describes a CLIP or ViT.
std::optional<runner::PretrainedConfig> config_of_weights(
    const std::optional<nlohmann::json>& config, const BackboneConfig& backbone);

}  // namespace stages
