#include "stages/model/text_head.h"

#include <algorithm>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "runner/shared/weights/pretrained_config.h"
#include "stages/artifact/class_captions.h"
#include "stages/model/caption_tokens.h"
#include "stages/model/pretrained.h"
#include "stages/plan/meta_kernels.h"

namespace stages {

using runner::ErrorCode;
using runner::StageError;

TextEncoder::TextEncoder(const TextTowerOptions& tower, std::int64_t projection_dim,
                         const at::TensorOptions& options)
    : logit_scale_(register_parameter("logit_scale", torch::empty({}, options))),
      texts_(register_module("text_model", std::make_shared<TextTower>(tower, options))),
      projection_(register_module("text_projection",
                                  std::make_shared<Linear>(tower.block.hidden_size, projection_dim,
                                                           /*with_bias=*/false, options))) {}

at::Tensor TextEncoder::forward(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  return with_unit_length(projection_->forward(texts_->forward(ids)));
}

namespace {

constexpr std::int64_t kTextsAtOnce = 64;

/// Returns an error at the backbone's weights.
StageError at_weights(const BackboneConfig& backbone, ErrorCode code, const std::string& text,
                      const std::string& help) {
  return StageError(code, text).at("/weights").in_stage(backbone.pointer).with_help(help);
}

/// Returns the options of model.clip that describe both towers.
nlohmann::ordered_json both_towers(const BackboneConfig& backbone, const SavedWeights& saved) {
  const std::string needs = "head_start: zero_shot needs a text tower, but ";
  const std::string help =
      "use the weights of a complete CLIP model with its config.json and merges.txt, such as "
      "hf:openai/clip-vit-base-patch32, or set model.head_start: uniform";
  if (!saved.config)
    throw at_weights(backbone, ErrorCode::kOptionConflict,
                     needs + "there is no config.json next to the weights '" + *backbone.weights +
                         "' that describes one",
                     help);
  try {
    return runner::clip_options(*saved.config);
  } catch (const std::invalid_argument& error) {
    throw at_weights(backbone, ErrorCode::kOptionConflict,
                     needs + "in the config.json next to the weights '" + *backbone.weights +
                         "', " + error.what(),
                     help);
  }
}

}  // namespace

TextHead::TextHead(std::string pointer, const BackboneConfig& backbone,
                   std::vector<std::string> templates, std::shared_ptr<const SavedWeights> saved)
    : pointer_(std::move(pointer)),
      backbone_(backbone),
      templates_(std::move(templates)),
      saved_(std::move(saved)) {
  const nlohmann::ordered_json options = both_towers(backbone_, *saved_);
  const nlohmann::ordered_json& text = options.at("text");
  tower_.block.hidden_size = text.at("hidden_size");
  tower_.block.intermediate_size = text.at("intermediate_size");
  tower_.block.num_attention_heads = text.at("num_attention_heads");
  tower_.block.hidden_act = backbone_.tower.block.hidden_act;
  tower_.block.layer_norm_eps = backbone_.tower.block.layer_norm_eps;
  tower_.num_hidden_layers = text.at("num_hidden_layers");
  tower_.context_length = options.at("tokenizer").at("context_length");
  tower_.end_token =
      text.at("end_token") == "highest_id" ? EndToken::kHighestId : EndToken::kFirstEnd;
  projection_dim_ = *backbone_.projection_dim;
  try {
    tokenizer_ = opened_tokenizer({.merges = merges_of(*backbone_.weights)});
  } catch (const StageError& error) {
    throw at_weights(backbone_, error.code, error.what(),
                     "head_start: zero_shot tokenizes texts with the same model's tokenizer: put "
                     "its merges.txt next to the weights");
  }
  tower_.vocab_size = tokenizer_->size();
  tower_.end_id = tokenizer_->end();
}

void TextHead::fill(TextEncoder& encoder) const {
  const auto check = [&](const PretrainedReport& report) {
    if (!report.fits())
      throw at_weights(
          backbone_, ErrorCode::kDamagedWeights,
          "the text tower in '" + *backbone_.weights +
              "' does not match the config.json and the tokenizer next to it: " + report.misfits(),
          "use the files that were published together");
  };
  PretrainedPlaces places(encoder, saved_->tensors, backbone_.position_resize);
  check(places.report());
  if (encoder.logit_scale().is_meta()) return;
  try {
    read_saved_weights(*backbone_.weights, saved_->sha256, places.sink(), backbone_.weights_entry);
  } catch (const StageError& error) {
    throw at_weights(backbone_, error.code, error.what(), error.help);
  }
  check(places.report());
}

at::Tensor TextHead::computed(const std::vector<std::string>& names, at::Device device) const {
  const torch::NoGradGuard no_graph;
  TokenizedTexts texts;
  try {
    texts = tokenized_captions(texts_of_classes(names, templates_), *tokenizer_,
                               {.length = tower_.context_length});
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at("/templates")
        .in_stage(pointer_)
        .with_help("shorten the templates or the class names");
  }
  const at::Tensor ids = texts.ids.narrow(1, 0, *std::ranges::max_element(texts.lengths));
  TextEncoder encoder(tower_, projection_dim_, at::TensorOptions(at::kFloat).device(device));
  fill(encoder);
  encoder.eval();
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < ids.size(0); begin += kTextsAtOnce)
    parts.push_back(
        encoder.forward(ids.slice(0, begin, begin + kTextsAtOnce).contiguous().to(device)));
  return class_embeddings(torch::cat(parts), static_cast<std::int64_t>(templates_.size())) *
         encoder.logit_scale().exp();
}

at::Tensor TextHead::rows(const std::vector<std::string>& names) const {
  return computed(names, at::kCPU);
}

at::Tensor TextHead::outline(const std::vector<std::string>& names) const {
  register_meta_kernels();
  return computed(names, at::kMeta);
}

}  // namespace stages
