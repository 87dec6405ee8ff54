#include "stages/model/published_base.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/weights/pretrained_config.h"
#include "runner/shared/weights/weights_file.h"
#include "stages/model/clip_model.h"
#include "stages/model/fine_tuned.h"
#include "stages/weights/saved_weights.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

std::string config_word(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

/// True if the library of `layout` creates a model with that layout from a folder with this config.
bool is_of_library(const nlohmann::json& config, WeightLayout layout) {
  if (is_fused(layout)) return config.contains("architecture");
  const std::string type = config_word(config, "model_type");
  if (layout == WeightLayout::kDinov2 || layout == WeightLayout::kDinov25)
    return type == "dinov2" || type == "dinov2_with_registers";
  const bool is_clip = layout == WeightLayout::kClip || layout == WeightLayout::kClipInner;
  return is_clip ? type == "clip" || type == "clip_vision_model" : type == "vit";
}

/// True if `file` has a name that libraries look for when they load weights from a folder.
bool is_found_in_folder(const fs::path& file) {
  constexpr std::array kNames = {"model.safetensors", "model.safetensors.index.json",
                                 "pytorch_model.bin", "pytorch_model.bin.index.json"};
  return std::ranges::find(kNames, file.filename()) != kNames.end();
}

PublishedBase hub_base(const std::string& reference) {
  const std::string path = reference.substr(reference.find(':') + 1);
  const std::size_t at = path.find('@');
  if (at == path.npos) return {path, std::nullopt};
  return {path.substr(0, at), path.substr(at + 1)};
}

/// Returns the location of `weights`; nullopt if a library does not find them there, or if their
/// config does not satisfy `suits` or is for another image size.
std::optional<PublishedBase> base_at(
    const std::optional<std::string>& weights, std::int64_t image_size,
    const std::function<bool(const nlohmann::json& config)>& suits) {
  if (!weights) return std::nullopt;
  const std::string& reference = *weights;
  const fs::path file = find_weights(reference);
  const auto config = weights_config(reference);
  if (!config || !is_found_in_folder(file) || !suits(*config)) return std::nullopt;
  try {
    constexpr std::int64_t kDefault = 224;  // transformers' configs omit this size
    if (image_size != runner::pretrained_config(*config).image_size.value_or(kDefault))
      return std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  if (runner::is_hub_reference(reference)) return hub_base(reference);
  return PublishedBase{fs::canonical(file.parent_path()).string(), std::nullopt};
}

}  // namespace

std::optional<PublishedBase> published_base(const FineTunedClassifier& network,
                                            WeightLayout layout) {
  return base_at(network.weights_reference, network.options().tower.image_size,
                 [&](const nlohmann::json& config) { return is_of_library(config, layout); });
}

std::optional<PublishedBase> published_base(const AdaptedClip& network) {
  return base_at(
      network.weights_reference, network.options().image.image_size,
      [](const nlohmann::json& config) { return config_word(config, "model_type") == "clip"; });
}

}  // namespace stages
