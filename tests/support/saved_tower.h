#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <torch/types.h>

#include "stages/model/initializer.h"
#include "stages/model/vision_tower.h"
#include "stages/weights/safetensors.h"
#include "tests/support/small_backbone.h"
#include "tests/support/temporary_folder.h"

namespace stages {

/// A folder with the weights of a small CLIP tower as transformers saves it, and its config.
class SavedTower {
 public:
  explicit SavedTower(const std::string& activation = "gelu") {
    ImageClassifierOptions options;
    options.tower.block = {8, 16, 2, Activation::kGelu, 1e-5};
    options.tower.num_hidden_layers = 2;
    options.tower.patch_size = 4;
    options.tower.image_size = 8;
    options.feature = Feature::kProjected;
    options.projection_dim = 6;
    options.num_classes = 3;
    ImageClassifier network(options);
    initialize(network, {8, 2, 0.02, 1}, 5);
    NamedTensors tensors;
    for (const auto& item : network.named_parameters()) {
      if (!item.key().starts_with("head.")) tensors.set(item.key(), item.value().detach());
    }
    write_safetensors(folder_ / "model.safetensors", tensors);
    std::ofstream(folder_ / "config.json") << Json{
        {"model_type", "clip_vision_model"},
        {"hidden_act", activation},
        {"hidden_size", 8},
        {"layer_norm_eps", 1e-5}}.dump();
    weights_ = std::move(tensors);
  }
  std::string file() const { return (folder_ / "model.safetensors").string(); }
  void forget_config() const { std::filesystem::remove(folder_ / "config.json"); }
  void change_config(const Json& changes) const {
    Json config = Json::parse(std::ifstream(folder_ / "config.json"));
    config.update(changes);
    std::ofstream(folder_ / "config.json") << config.dump();
  }
  const NamedTensors& weights() const { return weights_; }

 private:
  TemporaryFolder folder_;
  NamedTensors weights_;
};

}  // namespace stages
