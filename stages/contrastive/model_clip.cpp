#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/model/backbone.h"
#include "stages/model/caption_tokens.h"
#include "stages/model/clip_model.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// The tokenizer options. If they do not specify a merges file, it is expected next to the weights.
struct TokenizerFiles {
  std::optional<std::string> merges, vocabulary;
  TextCleaning cleaning = TextCleaning::kTransformers;
};

class ClipStage : public runner::Stage {
 public:
  ClipStage(ClipConfig config, TokenizerFiles files)
      : config_(std::move(config)), files_(std::move(files)) {}

  std::string fingerprint() const override {
    if (config_.image.weights && !sha256_) sha256_ = sha256_of_weights(config_.image);
    std::string all = sha256_.value_or("");
    const std::optional<std::string> adapter = config_.lora ? config_.lora->adapter : std::nullopt;
    for (const std::optional<std::string>& path : {files_.merges, files_.vocabulary, adapter})
      if (path) all += runner::digest_below(*path);
    if (config_.image.weights && !files_.merges) {
      const auto beside = merges_next_to(*config_.image.weights);
      if (beside) all += runner::digest_below(*beside);
    }
    return all;
  }
  /// True if adapters are attached to random weights, which depend on the seed.
  bool uses_seed() const override { return config_.lora && !config_.image.weights; }

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    ClipConfig config = config_;
    config.base_seed = context.node().seed;
    const BackboneConfig& image = config_.image;
    std::shared_ptr<SavedWeights> saved;
    if (image.weights) {
      saved = std::make_shared<SavedWeights>(shapes_of_weights(image));
      if (!sha256_) sha256_ = sha256_of_weights(image);
      saved->sha256 = *sha256_;
      check_text_tower(saved->config);
    }
    config.image = resolved(image, saved ? config_of_weights(saved->config, image) : std::nullopt);
    config.text.block.hidden_act = config.image.tower.block.hidden_act;
    config.text.block.layer_norm_eps = config.image.tower.block.layer_norm_eps;
    const std::shared_ptr<const Tokenizer> tokenizer = read_tokenizer(context);
    config.text.vocab_size = tokenizer->size();
    config.text.end_id = tokenizer->end();
    const auto model = std::make_shared<Clip>(std::move(config), tokenizer, saved);
    model->check_weights();
    return {{"model", model}};
  }

 private:
  /// Compares the number of heads with the config next to the weights, since it cannot be inferred
  /// from the weights' shapes.
  void check_text_tower(const std::optional<nlohmann::json>& config) const {
    if (!config || !config->is_object() || !config->contains("text_config")) return;
    const nlohmann::json& text = config->at("text_config");
    const std::int64_t heads = config_.text.block.num_attention_heads;
    if (!text.is_object() || !text.contains("num_attention_heads") ||
        text["num_attention_heads"] == heads)
      return;
    throw StageError(ErrorCode::kOptionConflict,
                     "num_attention_heads is " + std::to_string(heads) + " in the recipe, but " +
                         text["num_attention_heads"].dump() +
                         " in the config.json next to the weights '" + *config_.image.weights + "'")
        .at("/text/num_attention_heads")
        .with_help("set the option to the weights' value");
  }

  std::shared_ptr<const Tokenizer> read_tokenizer(runner::RunContext& context) const {
    TokenizerOptions options{.cleaning = files_.cleaning};
    if (files_.merges) options.merges = *files_.merges;
    if (!files_.merges && config_.image.weights) options.merges = merges_of(*config_.image.weights);
    if (files_.vocabulary) options.vocabulary = *files_.vocabulary;
    std::shared_ptr<const Tokenizer> tokenizer = opened_tokenizer(options);
    if (!options.merges) {
      context.say("the tokenizer has no merges: every byte of a caption is one token");
    }
    return tokenizer;
  }

  const ClipConfig config_;
  const TokenizerFiles files_;
  mutable std::optional<std::string> sha256_;  // SHA-256 of the weights, computed once
};

void read_block(runner::ConfigReader& reader, BlockOptions& block, std::int64_t& layers) {
  reader.read("hidden_size", block.hidden_size);
  reader.read("intermediate_size", block.intermediate_size);
  reader.read("num_attention_heads", block.num_attention_heads);
  reader.read("num_hidden_layers", layers);
  if (block.num_attention_heads > 0 && block.hidden_size % block.num_attention_heads != 0) {
    reader.fail("hidden_size", ErrorCode::kOptionConflict,
                "hidden_size " + std::to_string(block.hidden_size) +
                    " is not a multiple of num_attention_heads " +
                    std::to_string(block.num_attention_heads),
                "change hidden_size or num_attention_heads; every head gets an equal part of the "
                "width");
  }
}

TokenizerFiles read_tokenizer_options(runner::ConfigReader& reader, ClipConfig& config) {
  TokenizerFiles files;
  reader.read("merges", files.merges);
  reader.read("vocabulary", files.vocabulary);
  reader.read("context_length", config.text.context_length);
  config.cuts_texts = runner::choice<bool>(reader, "too_long", {{"stop", false}, {"cut", true}});
  files.cleaning = runner::choice<TextCleaning>(
      reader, "cleaning",
      {{"transformers", TextCleaning::kTransformers}, {"openai", TextCleaning::kOpenai}});
  return files;
}

std::optional<ClipAdapterConfig> read_adapters(runner::ConfigReader& reader) {
  const runner::Value* const value = reader.raw("adapters");
  if (!value || value->is_null()) return std::nullopt;
  runner::ConfigReader& section = reader.section("adapters");
  ClipAdapterConfig config{.pointer = section.pointer(), .options = read_lora_options(section)};
  section.read("adapter", config.adapter);
  // The adapter overwrites whatever values the initialization produces.
  if (config.adapter) config.options.initialization = LoraInitialization::kKaiming;
  return config;
}

runner::Result<std::unique_ptr<runner::Stage>> create_clip(runner::ConfigReader& reader) {
  ClipConfig config;
  config.pointer = reader.pointer();
  BackboneConfig& image = config.image;
  image.pointer = reader.pointer();
  image.feature = Feature::kProjected;
  image.projection_dim.emplace();
  reader.read("weights", image.weights);
  reader.read("weights_entry", image.weights_entry);
  image.hidden_act =
      runner::choice<std::optional<Activation>>(reader, "hidden_act",
                                                {{"auto", std::nullopt},
                                                 {"gelu", Activation::kGelu},
                                                 {"quick_gelu", Activation::kQuickGelu}});
  image.layer_norm_eps.emplace();
  reader.read("layer_norm_eps", *image.layer_norm_eps);
  reader.read("projection_dim", *image.projection_dim);
  reader.read("logit_scale", config.logit_scale);
  reader.read("maximum_logit_scale", config.maximum_logit_scale);
  reader.read("logit_bias", config.logit_bias);
  config.has_class_head =
      runner::choice<bool>(reader, "class_head", {{"none", false}, {"linear", true}});
  runner::read_or_auto(reader, "num_classes", config.num_classes);

  runner::ConfigReader& of_images = reader.section("image");
  read_block(of_images, image.tower.block, image.tower.num_hidden_layers);
  of_images.read("patch_size", image.tower.patch_size);
  runner::read_or_auto(of_images, "image_size", image.image_size);
  runner::ConfigReader& of_texts = reader.section("text");
  read_block(of_texts, config.text.block, config.text.num_hidden_layers);
  config.text.end_token = runner::choice<EndToken>(
      of_texts, "end_token",
      {{"highest_id", EndToken::kHighestId}, {"first_end", EndToken::kFirstEnd}});
  TokenizerFiles files = read_tokenizer_options(reader.section("tokenizer"), config);
  config.lora = read_adapters(reader);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(
      std::make_unique<ClipStage>(std::move(config), std::move(files)));
}

}  // namespace

extern const runner::StageKind kModelClip = {"model.clip", create_clip};

}  // namespace stages
