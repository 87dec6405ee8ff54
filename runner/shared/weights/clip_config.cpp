#include "runner/shared/weights/clip_config.h"

#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/weights/pretrained_config.h"

namespace runner {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

/// A positive integer, or what CLIPTextConfig has where its file leaves it out.
std::int64_t count_at(const json& config, const char* key, std::int64_t otherwise) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return otherwise;
  if (!found->is_number_integer() || *found < 1)
    throw std::invalid_argument("its '" + std::string(key) + "' is " + found->dump() + ", not a positive number");
  return found->get<std::int64_t>();
}

json section_of(const json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_object() ? *found : json::object();
}

/// Both towers have one activation here.
void check_activation(const json& texts, const std::string& of_images) {
  const std::string of_texts = texts.value("hidden_act", json("quick_gelu")).dump();
  if (of_texts != json(of_images).dump())
    throw std::invalid_argument("its text tower has the activation " + of_texts + ", and its image tower '" +
                                of_images + "'");
}

}  // namespace

Json clip_options(const json& config) {
  const json type = config.is_object() ? config.value("model_type", json()) : json();
  if (type != "clip") {
    throw std::invalid_argument(type.is_string() ? "it describes a '" + type.get<std::string>() + "', not a 'clip'"
                                                 : "it does not say that the model is a 'clip'");
  }
  json whole = config;
  whole["vision_config"] = section_of(config, "vision_config");
  const PretrainedConfig images = pretrained_config(whole);
  const json texts = section_of(config, "text_config");
  check_activation(texts, *images.hidden_act);
  constexpr std::int64_t kHighestId = 2;  // of OpenAI's weights: it stands for the token with the highest id
  const bool takes_highest = count_at(texts, "eos_token_id", 49407) == kHighestId;
  return {{"hidden_act", *images.hidden_act},
          {"layer_norm_eps", *images.layer_norm_eps},
          {"projection_dim", images.projection_dim.value_or(512)},
          {"class_head", "none"},
          {"image",
           {{"hidden_size", images.hidden_size.value_or(768)},
            {"intermediate_size", images.intermediate_size.value_or(3072)},
            {"num_hidden_layers", images.num_hidden_layers.value_or(12)},
            {"num_attention_heads", images.num_attention_heads.value_or(12)},
            {"patch_size", images.patch_size.value_or(32)}}},
          {"text",
           {{"hidden_size", count_at(texts, "hidden_size", 512)},
            {"intermediate_size", count_at(texts, "intermediate_size", 2048)},
            {"num_hidden_layers", count_at(texts, "num_hidden_layers", 12)},
            {"num_attention_heads", count_at(texts, "num_attention_heads", 8)},
            {"end_token", takes_highest ? "highest_id" : "first_end"}}},
          {"tokenizer", {{"context_length", count_at(texts, "max_position_embeddings", 77)}}}};
}

}  // namespace runner
