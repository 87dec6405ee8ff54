#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/vision_tower.h"

/// A classifier on a CLIP tower of two blocks of width 8, with some fixed weights in float64.
inline std::shared_ptr<stages::ImageClassifier> tiny_tower() {
  stages::ImageClassifierOptions options;
  options.tower.block.hidden_size = 8;
  options.tower.block.intermediate_size = 16;
  options.tower.block.num_attention_heads = 2;
  options.tower.block.layer_norm_eps = 1e-5;
  options.tower.num_hidden_layers = 2;
  options.tower.patch_size = 4;
  options.tower.image_size = 8;
  options.num_classes = 3;
  const auto network = std::make_shared<stages::ImageClassifier>(options);
  network->to(torch::kDouble);
  const torch::NoGradGuard no_graph;
  std::uint64_t seed = 0;
  for (at::Tensor& weight : network->parameters())
    weight.normal_(0, 0.5, at::detail::createCPUGenerator(++seed));
  return network;
}

/// The names of transformers' CLIPVisionModel, version 4; the head is not one of its modules.
inline std::optional<std::string> clip_names(std::string_view ours) {
  return ours.starts_with("vision_model.") ? std::optional<std::string>(ours) : std::nullopt;
}

/// The names of the tower inside it, and of our head.
inline std::optional<std::string> inner_names(std::string_view ours) {
  if (ours == "head") return "classifier";
  return clip_names(ours) ? std::optional<std::string>(ours.substr(13)) : std::nullopt;
}
