#include "stages/model/published_base.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "runner/shared/weights/hugging_face_cache.h"
#include "runner/shared/weights/pretrained_config.h"
#include "stages/weights/saved_weights.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

std::string config_word(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Does the library of `layout` make such a model from the folder with this config?
bool is_of_library(const nlohmann::json& config, WeightLayout layout) {
  if (is_fused(layout)) return config.contains("architecture");
  const std::string type = config_word(config, "model_type");
  const bool is_clip = layout == WeightLayout::kClip || layout == WeightLayout::kClipInner;
  return is_clip ? type == "clip" || type == "clip_vision_model" : type == "vit";
}

/// The names by which a library finds weights in a folder.
bool is_found_in_folder(const fs::path& file) {
  constexpr std::array kNames = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                 "pytorch_model.bin.index.json"};
  return std::ranges::find(kNames, file.filename()) != kNames.end();
}

PublishedBase hub_base(const std::string& reference) {
  const std::string path = reference.substr(reference.find(':') + 1);
  const std::size_t at = path.find('@');
  if (at == path.npos) return {path, std::nullopt};
  return {path.substr(0, at), path.substr(at + 1)};
}

/// Where `reference` leads, if a library finds weights there by a config that suits and for images of this side.
std::optional<PublishedBase> base_at(const std::optional<std::string>& weights, std::int64_t image_size,
                                     const std::function<bool(const nlohmann::json& config)>& suits) {
  if (!weights) return std::nullopt;
  const std::string& reference = *weights;
  const fs::path file = find_weights(reference);
  const auto config = weights_config(reference);
  if (!config || !is_found_in_folder(file) || !suits(*config)) return std::nullopt;
  try {
    constexpr std::int64_t kDefault = 224;  // of transformers' configs, which leave it out then
    if (image_size != runner::pretrained_config(*config).image_size.value_or(kDefault)) return std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  if (runner::is_hub_reference(reference)) return hub_base(reference);
  return PublishedBase{fs::canonical(file.parent_path()).string(), std::nullopt};
}

}  // namespace

std::optional<PublishedBase> published_base(const FineTunedClassifier& network, WeightLayout layout) {
  return base_at(network.weights_reference, network.options().tower.image_size,
                 [&](const nlohmann::json& config) { return is_of_library(config, layout); });
}

std::optional<PublishedBase> published_base(const AdaptedClip& network) {
  return base_at(network.weights_reference, network.options().image.image_size,
                 [](const nlohmann::json& config) { return config_word(config, "model_type") == "clip"; });
}

}  // namespace stages
