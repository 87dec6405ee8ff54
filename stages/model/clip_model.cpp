#include "stages/model/clip_model.h"

#include <algorithm>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/caption_tokens.h"
#include "stages/model/clip_vision.h"
#include "stages/model/initializer.h"
#include "stages/model/pretrained.h"
#include "stages/model/vision_tower.h"
#include "stages/model/weight_names.h"
#include "stages/numerics/sharded_build.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

ClipNetwork& as_clip(torch::nn::Module& network) {
  auto* clip = dynamic_cast<ClipNetwork*>(&network);
  if (!clip) throw std::logic_error("not a network made by Clip::build()");
  return *clip;
}

bool is_of_texts(std::string_view weight) {
  return weight.starts_with("text_") && !is_of_adapter(weight);
}
bool is_class_head(std::string_view weight) { return weight.starts_with("class_head."); }
bool is_of_images(std::string_view weight) {
  return weight.starts_with("vis") && !is_of_adapter(weight);
}

InitializerOptions initializer_of(const BlockOptions& block, std::int64_t layers) {
  constexpr double kRange = 0.02, kFactor = 1;  // the defaults of transformers' configs
  return {block.hidden_size, layers, kRange, kFactor};
}

}  // namespace

ClipOptions Clip::fit(const DatasetDescription& data) const {
  ClipOptions options{.image = config_.image.tower,
                      .text = config_.text,
                      .projection_dim = *config_.image.projection_dim,
                      .class_count = 0,
                      .has_logit_bias = config_.logit_bias.has_value()};
  options.image.image_size = fitting_image_size(data, config_.image.image_size,
                                                config_.image.tower.patch_size, config_.pointer);
  if (config_.has_class_head)
    options.class_count = fitting_classes(data, config_.num_classes, config_.pointer);
  return options;
}

std::shared_ptr<ClipNetwork> Clip::make(const DatasetDescription& data, std::uint64_t seed,
                                        at::Device device) const {
  const auto tensors = at::TensorOptions(at::kFloat).device(device);
  if (!config_.lora) return std::make_shared<ClipNetwork>(fit(data), tensors);
  const auto network = std::make_shared<AdaptedClip>(fit(data), *config_.lora, seed, tensors);
  network->weights_reference = config_.image.weights;
  return network;
}

std::unique_ptr<PretrainedPlaces> Clip::places_in(torch::nn::Module& network) const {
  const BackboneConfig& image = config_.image;
  const auto refuse = [&](const std::string& why, const std::string& help) {
    throw StageError(ErrorCode::kDamagedWeights,
                     "the weights '" + *image.weights + "' do not match the model: " + why)
        .at("/weights")
        .in_stage(config_.pointer)
        .with_help(help);
  };
  try {
    auto places =
        std::make_unique<PretrainedPlaces>(network, saved_->tensors, image.position_resize);
    if (places->report().fits()) return places;
    const std::string sizes = differing_sizes(image, sizes_of_weights(saved_->tensors));
    if (sizes.empty())
      refuse(places->report().misfits(),
             "use weights of both towers of a CLIP model of this shape, or change the model's "
             "shape to match the weights");
    refuse(sizes, "change the model's dimensions to match the weights, or use other weights");
  } catch (const StageError& error) {
    if (!error.stage.empty()) throw;
    refuse(error.what(), error.help);
  }
  return nullptr;
}

void Clip::fill(ClipNetwork& network, std::uint64_t seed) const {
  const BackboneConfig& image = config_.image;
  const InitializerOptions of_images =
      initializer_of(image.tower.block, image.tower.num_hidden_layers);
  initialize(network, of_images, seed, is_class_head);
  if (config_.logit_bias) {
    const torch::NoGradGuard no_graph;
    at::Tensor(network.logit_bias()).fill_(*config_.logit_bias);
  }
  if (!saved_) {
    const std::uint64_t base_seed = config_.lora ? config_.base_seed : seed;
    initialize(network, of_images, base_seed, is_of_images);
    initialize(network, initializer_of(config_.text.block, config_.text.num_hidden_layers),
               base_seed, is_of_texts);
    const torch::NoGradGuard no_graph;
    at::Tensor(network.logit_scale()).fill_(config_.logit_scale);
    network.notes.push_back("both towers have random weights");
    return;
  }
  const auto places = places_in(network);
  try {
    const torch::NoGradGuard no_graph;
    read_saved_weights(*image.weights, saved_->sha256, places->sink(), image.weights_entry);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at("/weights")
        .in_stage(config_.pointer)
        .with_help(error.help);
  }
  network.notes.push_back("'" + *image.weights + "': " + saved_->choice() +
                          places->report().text());
}

void Clip::check_weights() const {
  if (!saved_) return;
  ClipOptions options{.image = config_.image.tower,
                      .text = config_.text,
                      .projection_dim = *config_.image.projection_dim,
                      .class_count = 0,
                      .has_logit_bias = config_.logit_bias.has_value()};
  options.image.image_size =
      options.image.patch_size;  // any size works: the position embeddings are resized
  ClipNetwork network(options, at::TensorOptions(at::kFloat).device(at::kMeta));
  places_in(network);
}

std::string Clip::base_text(const ClipNetwork& network) const {
  if (!saved_) return "random, seed " + std::to_string(config_.base_seed);
  const auto positions =
      network.named_parameters()["vision_model.embeddings.position_embedding.weight"].size(0);
  return "sha256 " + saved_->sha256 + ", " + std::to_string(positions) + " positions";
}

bool Clip::builds_in_shards() const {
  return !config_.lora || !depends_on_weights(config_.lora->options);
}

std::shared_ptr<torch::nn::Module> Clip::build(const DatasetDescription& data,
                                               std::uint64_t seed) const {
  auto network = make(data, seed, at::kCPU);
  allocate_own_weights(*network);
  fill(*network, seed);
  constrain(*network);
  if (auto* adapted = dynamic_cast<AdaptedClip*>(network.get())) {
    start_from_weights(adapted->lora());
    adapted->begin(*config_.lora);
    adapted->freeze(base_text(*network));
    adapted->notes.push_back(trainable_line(*network));
  }
  return network;
}

std::shared_ptr<torch::nn::Module> Clip::outline(const DatasetDescription& data) const {
  const auto network = make(data, 0, at::kMeta);
  allocate_own_weights(*network);
  if (auto* adapted = dynamic_cast<AdaptedClip*>(network.get())) {
    adapted->begin(*config_.lora);
    adapted->freeze("");
  }
  return network;
}

NamedTensors Clip::forward(torch::nn::Module& network, const NamedTensors& inputs) const {
  const ClipNetwork& clip = as_clip(network);
  NamedTensors outputs;
  if (inputs.contains("image")) {
    const at::Tensor embeddings = clip.embed_images(inputs.at("image"));
    outputs.set("image_embeddings", embeddings);
    if (config_.has_class_head) outputs.set("logits", clip.classify(embeddings));
  }
  if (inputs.contains("tokens"))
    outputs.set("text_embeddings", clip.embed_texts(inputs.at("tokens")));
  outputs.set("logit_scale", clip.logit_scale());
  if (config_.logit_bias) outputs.set("logit_bias", clip.logit_bias());
  return outputs;
}

void Clip::constrain(torch::nn::Module& network) const {
  at::Tensor scale = as_clip(network).logit_scale().detach();
  if (!config_.maximum_logit_scale || scale.is_meta()) return;
  if (!scale.is_cpu()) {
    scale.clamp_max_(*config_.maximum_logit_scale);
    return;
  }
  if (scale.item<double>() > *config_.maximum_logit_scale)
    scale.fill_(*config_.maximum_logit_scale);
}

std::vector<std::string> Clip::notes(const torch::nn::Module& network) const {
  const auto* clip = dynamic_cast<const ClipNetwork*>(&network);
  return clip ? clip->notes : std::vector<std::string>();
}

/// Keeps the vocabulary and the context, since the texts come from the data.
Shrunken Clip::shrunken(const DatasetDescription& data) const {
  ClipConfig config = config_;
  config.image.weights.reset();
  if (config.lora) {
    config.lora->adapter.reset();
    LoraOptions& lora = config.lora->options;
    lora.initialization = initialization_of_shrunken(lora);
  }
  shrink(config.image.tower, config.image.image_size, config.image.projection_dim);
  const BlockOptions& small = config.image.tower.block;
  config.text.block.hidden_size = small.hidden_size;
  config.text.block.intermediate_size = small.intermediate_size;
  config.text.block.num_attention_heads = small.num_attention_heads;
  return {std::make_shared<Clip>(std::move(config), tokenizer_, nullptr),
          shrunken_data(data, small.hidden_size)};
}

TokenizedTexts Clip::tokenized(const std::vector<std::string>& texts) const {
  return tokenized_captions(
      texts, *tokenizer_,
      {config_.text.context_length, config_.cuts_texts, "model.tokenizer.too_long"});
}

}  // namespace stages
