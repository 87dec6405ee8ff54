#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/evaluate/text_classes.h"
#include "stages/model/clip_network.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "tests/support/captioned_images.h"
#include "tests/support/model_of.h"
#include "tests/support/temporary_folder.h"

namespace stages {

/// A folder with the weights, the config and the tokenizer of a small CLIP, as transformers saves
/// them, and the model itself.
class SavedClip {
 public:
  SavedClip() {
    checkpoint_.model = model_of(kModelClip, nlohmann::ordered_json::parse(kTinyClip));
    checkpoint_.network = checkpoint_.model->build(images_.describe(), 5);
    checkpoint_.network->eval();
    const auto& network = dynamic_cast<const ClipNetwork&>(*checkpoint_.network);
    write_safetensors(folder_ / "model.safetensors", exported(network));
    std::ofstream(folder_ / "config.json") << exported_config(network.options()).dump();
    std::ofstream(folder_ / "merges.txt") << "#version: 0.2\n";
  }

  /// The options of a backbone with these weights, and `more`.
  nlohmann::ordered_json backbone(
      const nlohmann::ordered_json& more = nlohmann::ordered_json::object()) const {
    const VisionTowerOptions& tower =
        dynamic_cast<const ClipNetwork&>(*checkpoint_.network).options().image;
    nlohmann::ordered_json options = {
        {"weights", folder_.path().string()},
        {"hidden_size", tower.block.hidden_size},
        {"intermediate_size", tower.block.intermediate_size},
        {"num_hidden_layers", tower.num_hidden_layers},
        {"num_attention_heads", tower.block.num_attention_heads},
        {"patch_size", tower.patch_size},
        {"projection_dim",
         dynamic_cast<const ClipNetwork&>(*checkpoint_.network).options().projection_dim},
        {"features", "projected_normalized"}};
    options.update(more);
    return options;
  }
  const CaptionedImages& images() const { return images_; }
  /// Zero-shot logits of pixels (n, 3, size, size).
  at::Tensor zero_shot(const at::Tensor& pixels, const std::vector<std::string>& templates) const {
    const torch::NoGradGuard no_graph;
    const TextClasses classes(checkpoint_, words_of(images_.describe()), templates);
    const NamedTensors seen = checkpoint_.model->forward(*checkpoint_.network, {{"image", pixels}});
    return text_logits(seen.at("image_embeddings"),
                       classes.embeddings(*checkpoint_.network, at::kCPU, 4),
                       seen.at("logit_scale"));
  }
  std::filesystem::path folder() const { return folder_.path(); }

 private:
  const TemporaryFolder folder_;
  const CaptionedImages images_ = CaptionedImages(6);
  Checkpoint checkpoint_;
};

}  // namespace stages
