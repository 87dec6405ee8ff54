#include "stages/model/clip_network.h"

#include <cassert>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_layout.h"
#include "stages/model/weight_names.h"

namespace stages {
namespace {

BlockOptions causal(BlockOptions block) {
  block.is_causal = true;
  return block;
}

/// Returns the position of the first true value in each row, or 0 if there is none.
at::Tensor first_true(const at::Tensor& mask) {
  const at::Tensor before =
      mask.to(at::kLong).cumsum(1).eq(0).sum(1);  // number of tokens before it
  return before.remainder(mask.size(1));
}

}  // namespace

at::Tensor end_places(const at::Tensor& ids, EndToken rule, std::int64_t end_id) {
  return first_true(rule == EndToken::kFirstEnd ? ids.eq(end_id)
                                                : ids.eq(ids.amax(1, /*keepdim=*/true)));
}

TextEmbeddings::TextEmbeddings(const TextTowerOptions& tower, const at::TensorOptions& options)
    : tokens_(register_module(
          "token_embedding",
          std::make_shared<PositionEmbedding>(tower.vocab_size, tower.block.hidden_size, options))),
      positions_(register_module("position_embedding",
                                 std::make_shared<PositionEmbedding>(
                                     tower.context_length, tower.block.hidden_size, options))) {}

at::Tensor TextEmbeddings::forward(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  assert(ids.size(1) <= positions_->weight.size(0));
  return own(torch::embedding(tokens_->weight, ids) + positions_->weight.narrow(0, 0, ids.size(1)));
}

TextTower::TextTower(const TextTowerOptions& tower, const at::TensorOptions& options)
    : end_token_(tower.end_token),
      end_id_(tower.end_id),
      embeddings_(register_module("embeddings", std::make_shared<TextEmbeddings>(tower, options))),
      blocks_(register_blocks(*this, causal(tower.block), tower.num_hidden_layers, /*drop_path=*/0,
                              options)),
      final_norm_(register_module(
          "final_layer_norm", std::make_shared<LayerNorm>(tower.block.hidden_size,
                                                          tower.block.layer_norm_eps, options))) {}

at::Tensor TextTower::last_hidden_state(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  at::Tensor x = embed(ids);
  for (const auto& block : blocks_) x = block->forward(x);
  return x;
}

/// The norm treats each token separately, so only the tokens that represent texts are normalized.
at::Tensor TextTower::forward(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  const at::Tensor x = last_hidden_state(ids);
  const at::Tensor rows = torch::arange(ids.size(0), ids.options()) * ids.size(1) +
                          end_places(ids, end_token_, end_id_);
  return normalize(x.flatten(0, 1).index_select(0, rows));
}

ClipNetwork::ClipNetwork(const ClipOptions& clip, const at::TensorOptions& options)
    : options_(clip),
      logit_scale_(register_parameter("logit_scale", torch::empty({}, options))),
      images_(register_module("vision_model", std::make_shared<VisionTower>(clip.image, options))),
      texts_(register_module("text_model", std::make_shared<TextTower>(clip.text, options))) {
  const auto linear = [&](const char* name, std::int64_t inputs, std::int64_t outputs,
                          bool with_bias) {
    return register_module(name, std::make_shared<Linear>(inputs, outputs, with_bias, options));
  };
  if (clip.has_logit_bias)
    logit_bias_ = register_parameter("logit_bias", torch::empty({}, options));
  image_projection_ =
      linear("visual_projection", clip.image.block.hidden_size, clip.projection_dim, false);
  text_projection_ =
      linear("text_projection", clip.text.block.hidden_size, clip.projection_dim, false);
  if (clip.class_count > 0)
    class_head_ = linear("class_head", clip.projection_dim, clip.class_count, true);
}

at::Tensor ClipNetwork::embed_images(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  return with_unit_length(project_images(images_->pool(images_->forward_class_token(own(pixels)))));
}

at::Tensor ClipNetwork::embed_texts(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  return with_unit_length(project_texts(texts_->forward(ids)));
}

at::Tensor ClipNetwork::classify(const at::Tensor& image_embeddings) const {
  const OwnPrecision own(*this);
  if (!class_head_) throw std::logic_error("this CLIP model has no class head");
  return class_head_->forward(own(image_embeddings));
}

namespace {

using runner::StageError;

/// Runs `act`, and changes the location of its errors to the `adapters` section.
template <typename Act>
auto in_section(const ClipAdapterConfig& config, const Act& act) {
  try {
    return act();
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at(error.option)
        .in_stage(config.pointer)
        .with_help(error.help);
  }
}

HeadWeights class_head_of(const torch::nn::Module& network) {
  const auto weights = network.named_parameters();
  const at::Tensor* const weight = weights.find("class_head.weight");
  return weight ? HeadWeights{*weight, weights["class_head.bias"]} : HeadWeights{};
}

}  // namespace

AdaptedClip::AdaptedClip(const ClipOptions& clip, const ClipAdapterConfig& config,
                         std::uint64_t seed, const at::TensorOptions& options)
    : ClipNetwork(clip, options), lora_(in_section(config, [&] {
        return attach_lora(*this, config.options, module_names(WeightLayout::kClip), seed);
      })) {
  const HeadWeights head = class_head_of(*this);
  for (const at::Tensor& weight : {head.weight, head.bias}) {
    if (weight.defined()) weight.set_requires_grad(true);
  }
}

void AdaptedClip::begin(const ClipAdapterConfig& config) {
  if (config.adapter) {
    in_section(config, [&] {
      for (std::string& note : begin_from(*config.adapter, *this, lora_, class_head_of(*this)))
        notes.push_back(std::move(note));
    });
  }
  for (std::string& note : without_effect(lora_)) notes.push_back(std::move(note));
}

namespace {

using Json = nlohmann::ordered_json;

/// Returns the keys that have the same names in transformers' configs for both towers.
Json tower_config(const char* type, const BlockOptions& block, std::int64_t layers,
                  std::int64_t projection_dim) {
  return {{"model_type", type},
          {"hidden_size", block.hidden_size},
          {"intermediate_size", block.intermediate_size},
          {"num_hidden_layers", layers},
          {"num_attention_heads", block.num_attention_heads},
          {"hidden_act", name(block.hidden_act)},
          {"layer_norm_eps", block.layer_norm_eps},
          {"attention_dropout", 0.0},
          {"projection_dim", projection_dim}};
}

}  // namespace

NamedTensors exported(const ClipNetwork& network) {
  NamedTensors tensors;
  for (const auto& item : network.named_parameters()) {
    const auto theirs = library_name(WeightLayout::kClip, item.key());
    if (theirs) tensors.set(*theirs, item.value().detach().contiguous());
  }
  return tensors;
}

/// In transformers, an end-of-text id of 2 selects the token with the highest id, as in the configs
/// of OpenAI's weights.
Json exported_config(const ClipOptions& options) {
  constexpr std::int64_t kHighestId = 2;
  Json images = tower_config("clip_vision_model", options.image.block,
                             options.image.num_hidden_layers, options.projection_dim);
  images.update({{"image_size", options.image.image_size},
                 {"patch_size", options.image.patch_size},
                 {"num_channels", 3}});
  Json texts = tower_config("clip_text_model", options.text.block, options.text.num_hidden_layers,
                            options.projection_dim);
  texts.update({{"vocab_size", options.text.vocab_size},
                {"max_position_embeddings", options.text.context_length},
                {"bos_token_id", options.text.end_id - 1},
                {"eos_token_id",
                 options.text.end_token == EndToken::kHighestId ? kHighestId : options.text.end_id},
                {"pad_token_id", options.text.end_id}});
  return {{"model_type", "clip"},
          {"architectures", {"CLIPModel"}},
          {"projection_dim", options.projection_dim},
          {"torch_dtype", "float32"},
          {"vision_config", std::move(images)},
          {"text_config", std::move(texts)}};
}

}  // namespace stages
