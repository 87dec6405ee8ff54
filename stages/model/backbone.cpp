#include "stages/model/backbone.h"

#include <algorithm>
#include <cassert>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/model/clip_vision.h"
#include "stages/numerics/precision_map.h"
#include "stages/weights/saved_weights.h"

namespace stages {
namespace {

using runner::ConfigReader;
using runner::ErrorCode;
using runner::StageError;

void check_weights(ConfigReader& reader, const std::string& reference) {
  try {
    find_weights(reference);
  } catch (const StageError& error) {
    reader.fail("weights", error.code, error.what(), error.help);
  }
}

/// Compares the recipe with the config next to the weights, or with their shapes.
class Comparison {
 public:
  explicit Comparison(const BackboneConfig& backbone) : backbone_(backbone) {}

  template <typename T, typename U>
  void expect_equal(const char* option, const T& written, const std::optional<U>& config) {
    if (!config || written == *config) return;
    std::ostringstream text;
    text << option << " is " << written << " in the recipe, but " << *config;
    contradictions_.push_back(text.str());
    if (contradictions_.size() == 1) first_ = option;
  }

  /// Fills in an option that the recipe leaves open.
  template <typename T>
  void take(const char* option, std::optional<T>& written, const std::optional<T>& config,
            const T& of_random, const auto& shown) {
    if (written && config) expect_equal(option, shown(*written), std::optional(shown(*config)));
    if (!written && config) written = *config;
    if (!written && !backbone_.weights) written = of_random;
    if (written) return;
    throw StageError(ErrorCode::kOptionConflict,
                     std::string(option) +
                         " is auto, but there is no config.json next to the weights '" +
                         *backbone_.weights + "' that contains its value")
        .at("/" + std::string(option))
        .in_stage(backbone_.pointer)
        .with_help(
            "set it to the value that the weights were trained with, since they do not contain it");
  }

  void finish() const {
    if (contradictions_.empty()) return;
    throw StageError(ErrorCode::kOptionConflict, runner::join(contradictions_, "; ") +
                                                     " in the config.json next to the weights '" +
                                                     *backbone_.weights + "'")
        .at("/" + first_)
        .in_stage(backbone_.pointer)
        .with_help(contradictions_.size() == 1 ? "set the option to the weights' value"
                                               : "set the options to the weights' values");
  }

 private:
  const BackboneConfig& backbone_;
  std::vector<std::string> contradictions_;
  std::string first_;  // the first option that differs
};

}  // namespace

WeightLayout BackboneConfig::layout() const {
  switch (family) {
    case BackboneFamily::kClip:
      return has_timm_names ? WeightLayout::kTimmClip : WeightLayout::kClip;
    case BackboneFamily::kVit:
      return has_timm_names ? WeightLayout::kTimm : WeightLayout::kVit;
    case BackboneFamily::kDinov2:
      return has_timm_names ? WeightLayout::kTimm : WeightLayout::kDinov2;
  }
  assert(false);
  return {};
}

InitializerOptions BackboneConfig::initializer() const {
  constexpr double kRange = 0.02, kFactor = 1;  // the defaults of transformers' configs
  return {tower.block.hidden_size, tower.num_hidden_layers, kRange, kFactor,
          family == BackboneFamily::kClip ? InitializerRule::kClip : InitializerRule::kVit};
}

bool refuse_backbone(ConfigReader& parent, std::initializer_list<std::string_view> kinds,
                     const std::string& why, const std::string& help) {
  const runner::Value* const backbone = parent.raw("backbone");
  const runner::Value* const kind = backbone ? backbone->find("kind") : nullptr;
  if (!kind || !kind->text() || std::ranges::find(kinds, *kind->text()) == kinds.end())
    return false;
  parent.fail("backbone", ErrorCode::kOptionConflict, "a backbone '" + *kind->text() + "' " + why,
              help);
  return true;
}

BackboneConfig read_backbone(ConfigReader& parent) {
  if (refuse_backbone(parent, {"conv", "resnet"}, "is for models that learn from episodes",
                      "set the backbone's kind to clip_vision, vit or dinov2"))
    return {};
  ConfigReader& reader = parent.section("backbone");
  BackboneConfig backbone;
  backbone.pointer = reader.pointer();
  backbone.family = runner::choice<BackboneFamily>(reader, "kind",
                                                   {{"clip_vision", BackboneFamily::kClip},
                                                    {"vit", BackboneFamily::kVit},
                                                    {"dinov2", BackboneFamily::kDinov2}});
  VisionTowerOptions& tower = backbone.tower;
  reader.read("weights", backbone.weights);
  reader.read("weights_entry", backbone.weights_entry);
  reader.raw("pretraining");  // shown with the results, not used here
  reader.read("hidden_size", tower.block.hidden_size);
  reader.read("intermediate_size", tower.block.intermediate_size);
  reader.read("num_attention_heads", tower.block.num_attention_heads);
  reader.read("num_hidden_layers", tower.num_hidden_layers);
  reader.read("patch_size", tower.patch_size);
  runner::read_or_auto(reader, "image_size", backbone.image_size);
  runner::read_or_auto(reader, "layer_norm_eps", backbone.layer_norm_eps);
  backbone.hidden_act =
      runner::choice<std::optional<Activation>>(reader, "hidden_act",
                                                {{"auto", std::nullopt},
                                                 {"gelu", Activation::kGelu},
                                                 {"quick_gelu", Activation::kQuickGelu}});
  backbone.has_timm_names =
      runner::choice<bool>(reader, "names", {{"transformers", false}, {"timm", true}});
  backbone.dtype = scalar_type(runner::choice<Precision>(reader, "dtype", kPrecisions));
  backbone.position_resize =
      runner::choice<PositionResize>(reader, "position_resize",
                                     {{"bicubic", PositionResize::kBicubic},
                                      {"bicubic_antialias", PositionResize::kBicubicAntialias}});
  if (backbone.family == BackboneFamily::kClip) {
    reader.read("projection_dim", backbone.projection_dim);
    backbone.feature = runner::choice<Feature>(reader, "features", kFeatures);
  }
  if (backbone.family == BackboneFamily::kDinov2)
    reader.read("register_tokens", tower.register_tokens);
  tower.block.fused_qkv = backbone.has_timm_names;
  tower.block.layer_scale = backbone.family == BackboneFamily::kDinov2;
  tower.patch_bias = backbone.family != BackboneFamily::kClip;
  tower.norm_before_blocks = backbone.family == BackboneFamily::kClip;
  if (backbone.weights) check_weights(reader, *backbone.weights);
  return backbone;
}

namespace {

/// The default of the family's config in transformers.
double epsilon_of_random(BackboneFamily family) {
  switch (family) {
    case BackboneFamily::kClip:
      return 1e-5;
    case BackboneFamily::kVit:
      return 1e-12;
    case BackboneFamily::kDinov2:
      return 1e-6;
  }
  assert(false);
  return 0;
}

}  // namespace

BackboneConfig resolved(BackboneConfig backbone,
                        const std::optional<runner::PretrainedConfig>& config) {
  const BackboneConfig written = backbone;
  Comparison comparison(written);
  const runner::PretrainedConfig said = config.value_or(runner::PretrainedConfig{});
  std::optional<Activation> activation;
  if (said.hidden_act) activation = activation_named(*said.hidden_act);
  comparison.expect_equal("hidden_size", backbone.tower.block.hidden_size, said.hidden_size);
  comparison.expect_equal("intermediate_size", backbone.tower.block.intermediate_size,
                          said.intermediate_size);
  comparison.expect_equal("num_hidden_layers", backbone.tower.num_hidden_layers,
                          said.num_hidden_layers);
  comparison.expect_equal("num_attention_heads", backbone.tower.block.num_attention_heads,
                          said.num_attention_heads);
  comparison.expect_equal("patch_size", backbone.tower.patch_size, said.patch_size);
  comparison.expect_equal("register_tokens", backbone.tower.register_tokens, said.register_tokens);
  const bool is_clip = backbone.family == BackboneFamily::kClip;
  comparison.take("hidden_act", backbone.hidden_act, activation,
                  is_clip ? Activation::kQuickGelu : Activation::kGelu,
                  [](Activation value) { return name(value); });
  comparison.take("layer_norm_eps", backbone.layer_norm_eps, said.layer_norm_eps,
                  epsilon_of_random(backbone.family), [](double value) { return value; });
  comparison.finish();
  backbone.tower.block.hidden_act = *backbone.hidden_act;
  backbone.tower.block.layer_norm_eps = *backbone.layer_norm_eps;
  return backbone;
}

std::string differing_sizes(const BackboneConfig& backbone, const runner::PretrainedConfig& sizes) {
  std::vector<std::string> texts;
  const auto compare = [&](const char* option, std::optional<std::int64_t> ours,
                           std::optional<std::int64_t> theirs) {
    if (!ours || !theirs || *ours == *theirs) return;
    texts.push_back(std::string(option) + " is " + std::to_string(*ours) + ", but " +
                    std::to_string(*theirs) + " in the weights");
  };
  compare("hidden_size", backbone.tower.block.hidden_size, sizes.hidden_size);
  compare("intermediate_size", backbone.tower.block.intermediate_size, sizes.intermediate_size);
  compare("num_hidden_layers", backbone.tower.num_hidden_layers, sizes.num_hidden_layers);
  compare("patch_size", backbone.tower.patch_size, sizes.patch_size);
  compare("register_tokens", backbone.tower.register_tokens, sizes.register_tokens);
  if (is_projected(backbone.feature))
    compare("projection_dim", backbone.projection_dim, sizes.projection_dim);
  return runner::join(texts, "; ");
}

ImageClassifierOptions classifier_on(const BackboneConfig& backbone, const DatasetDescription& data,
                                     std::int64_t classes) {
  ImageClassifierOptions options;
  options.tower = backbone.tower;
  options.tower.image_size =
      fitting_image_size(data, backbone.image_size, backbone.tower.patch_size, backbone.pointer);
  options.feature = backbone.feature;
  if (is_projected(backbone.feature)) options.projection_dim = backbone.projection_dim;
  options.projection_bias = backbone.has_timm_names;
  options.num_classes = classes;
  options.ordinal = data.ordinal;
  return options;
}

namespace {

using runner::ErrorCode;
using runner::StageError;

/// Returns the result of `read` for the backbone's weights; errors are reported at the `weights`
/// option.
template <typename Read>
auto read_by(const BackboneConfig& backbone, Read read) {
  try {
    return read(*backbone.weights);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at("/weights")
        .in_stage(backbone.pointer)
        .with_help(error.help);
  }
}

}  // namespace

SavedWeights shapes_of_weights(const BackboneConfig& backbone) {
  return read_by(backbone, [&](const std::string& reference) {
    return read_saved_weights(reference, WeightContents::kShapes, backbone.weights_entry);
  });
}

std::string sha256_of_weights(const BackboneConfig& backbone) {
  return read_by(backbone, weights_sha256);
}

std::optional<runner::PretrainedConfig> config_of_weights(
    const std::optional<nlohmann::json>& config, const BackboneConfig& backbone) {
  if (!config) return std::nullopt;
  try {
    return runner::pretrained_config(*config);
  } catch (const std::invalid_argument& error) {
    throw StageError(ErrorCode::kOptionConflict,
                     "the config.json next to '" + *backbone.weights +
                         "' describes an unsupported model: " + error.what())
        .at("/weights")
        .in_stage(backbone.pointer)
        .with_help("use weights of a CLIP, ViT or DINOv2 model");
  }
}

}  // namespace stages
