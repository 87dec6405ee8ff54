#include "runner/shared/weights/pretrained_config.h"

#include <array>
#include <regex>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace runner {
namespace {

using nlohmann::json;

constexpr const char* kGelu = "gelu";
constexpr const char* kQuickGelu = "quick_gelu";
constexpr const char* kClipVision = "clip_vision";
constexpr const char* kVit = "vit";
constexpr const char* kDinov2 = "dinov2";

template <typename T>
void read(const json& from, const char* key, std::optional<T>& field) {
  const auto found = from.find(key);
  if (found == from.end() || found->is_null()) return;
  const bool fits = std::is_integral_v<T> ? found->is_number_integer() && *found > 0
                                          : found->is_number() && *found > 0;
  if (!fits)
    throw std::invalid_argument("its '" + std::string(key) + "' is " + found->dump() +
                                ", not a positive number");
  field = found->get<T>();
}

std::string word_at(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

void refuse_unless(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(what);
}

/// All model families in transformers use these names.
PretrainedConfig of_transformers(const json& config) {
  PretrainedConfig result;
  read(config, "hidden_size", result.hidden_size);
  read(config, "intermediate_size", result.intermediate_size);
  read(config, "num_hidden_layers", result.num_hidden_layers);
  read(config, "num_attention_heads", result.num_attention_heads);
  read(config, "patch_size", result.patch_size);
  read(config, "image_size", result.image_size);
  read(config, "projection_dim", result.projection_dim);
  read(config, "layer_norm_eps", result.layer_norm_eps);
  const std::string activation = word_at(config, "hidden_act");
  refuse_unless(
      activation.empty() || activation == kGelu || activation == kQuickGelu,
      "its 'hidden_act' is '" + activation + "', but only gelu and quick_gelu are supported");
  if (!activation.empty()) result.hidden_act = activation;
  refuse_unless(config.value("num_channels", json(3)) == 3, "its images must have three channels");
  refuse_unless(config.value("qkv_bias", json(true)) == true,
                "its attention has no bias ('qkv_bias')");
  return result;
}

/// Fills in the defaults of CLIPVisionConfig and ViTConfig, which their files omit if unchanged.
void fill_in(PretrainedConfig& config, const char* kind, const char* activation, double epsilon) {
  config.kind = kind;
  if (!config.hidden_act) config.hidden_act = activation;
  if (!config.layer_norm_eps) config.layer_norm_eps = epsilon;
}

/// Dinov2Config and Dinov2WithRegistersConfig specify the MLP's width as a ratio.
PretrainedConfig of_dinov2(const json& config, bool has_registers) {
  refuse_unless(config.value("use_swiglu_ffn", json(false)) == false,
                "its MLP is gated ('use_swiglu_ffn')");
  PretrainedConfig result = of_transformers(config);
  fill_in(result, kDinov2, kGelu, 1e-6);
  std::optional<double> ratio = 4.0;
  read(config, "mlp_ratio", ratio);
  constexpr std::int64_t kWidth = 768;
  result.intermediate_size =
      static_cast<std::int64_t>(static_cast<double>(result.hidden_size.value_or(kWidth)) * *ratio);
  if (!result.patch_size) result.patch_size = has_registers ? 16 : 14;
  result.register_tokens = has_registers ? 4 : 0;
  if (has_registers) read(config, "num_register_tokens", result.register_tokens);
  return result;
}

/// The width, depth and number of heads implied by a timm model name.
struct TimmSize {
  std::string_view name;
  std::int64_t width, depth, heads;
};
constexpr std::array<TimmSize, 4> kTimmSizes = {
    {{"tiny", 192, 12, 3}, {"small", 384, 12, 6}, {"base", 768, 12, 12}, {"large", 1024, 24, 16}}};

PretrainedConfig of_timm(const json& config) {
  const std::string architecture = word_at(config, "architecture");
  static const std::regex kName(
      R"(vit_(tiny|small|base|large)_patch(\d{1,4})(?:(_clip)?(_quickgelu)?_(\d{1,4})|)"
      R"((?:_reg(\d{1,3}))?(_dinov2))(\..*)?)");
  std::smatch match;
  refuse_unless(std::regex_match(architecture, match, kName),
                "its 'architecture' is '" + architecture +
                    "', but the only supported timm models are vit_{tiny,small,base,large}_patch…");
  PretrainedConfig result;
  for (const TimmSize& size : kTimmSizes) {
    if (match[1].str() != size.name) continue;
    result.hidden_size = size.width;
    result.num_hidden_layers = size.depth;
    result.num_attention_heads = size.heads;
  }
  const bool is_clip = match[3].matched;
  const bool is_dinov2 = match[7].matched;
  result.kind = is_clip ? kClipVision : is_dinov2 ? kDinov2 : kVit;
  result.patch_size = std::stoll(match[2].str());
  constexpr std::int64_t kImageOfDinov2 = 518;
  result.image_size = is_dinov2 ? kImageOfDinov2 : std::stoll(match[5].str());
  if (is_dinov2) result.register_tokens = match[6].matched ? std::stoll(match[6].str()) : 0;
  result.hidden_act = match[4].matched ? kQuickGelu : kGelu;
  result.layer_norm_eps = is_clip ? 1e-5 : 1e-6;
  const json& arguments = config.contains("model_args") && config["model_args"].is_object()
                              ? config["model_args"]
                              : config;
  read(arguments, "embed_dim", result.hidden_size);
  read(arguments, "depth", result.num_hidden_layers);
  read(arguments, "num_heads", result.num_attention_heads);
  read(arguments, "patch_size", result.patch_size);
  read(arguments, "img_size", result.image_size);
  if (is_dinov2) read(arguments, "reg_tokens", result.register_tokens);
  std::optional<double> ratio = 4.0;
  read(arguments, "mlp_ratio", ratio);
  result.intermediate_size =
      static_cast<std::int64_t>(static_cast<double>(*result.hidden_size) * *ratio);
  const bool has_projection = config.value("num_classes", json(0)) != 0;
  if (is_clip && has_projection) read(config, "num_classes", result.projection_dim);
  return result;
}

PretrainedConfig of_open_clip(const json& model) {
  refuse_unless(model.contains("vision_cfg") && model["vision_cfg"].is_object(),
                "its 'model_cfg' has no 'vision_cfg'");
  const json& vision = model["vision_cfg"];
  refuse_unless(word_at(vision, "timm_model_name").empty() &&
                    (!vision.contains("layers") || vision["layers"].is_number()),
                "its vision tower is not a transformer like CLIP's");
  PretrainedConfig result;
  result.kind = kClipVision;
  result.hidden_size = 768, result.num_hidden_layers = 12;
  read(vision, "width", result.hidden_size);
  read(vision, "layers", result.num_hidden_layers);
  read(vision, "patch_size", result.patch_size);
  read(vision, "image_size", result.image_size);
  read(model, "embed_dim", result.projection_dim);
  std::optional<std::int64_t> head_width = 64;
  std::optional<double> ratio = 4.0;
  read(vision, "head_width", head_width);
  read(vision, "mlp_ratio", ratio);
  result.num_attention_heads = *result.hidden_size / *head_width;
  result.intermediate_size =
      static_cast<std::int64_t>(static_cast<double>(*result.hidden_size) * *ratio);
  result.hidden_act = model.value("quick_gelu", json(false)) == true ? kQuickGelu : kGelu;
  result.layer_norm_eps = 1e-5;
  return result;
}

}  // namespace

PretrainedConfig pretrained_config(const json& config) {
  if (!config.is_object()) return {};
  if (config.contains("model_cfg")) return of_open_clip(config["model_cfg"]);
  if (config.contains("architecture")) return of_timm(config);
  const std::string type = word_at(config, "model_type");
  if (type == "vit") {
    PretrainedConfig result = of_transformers(config);
    fill_in(result, kVit, kGelu, 1e-12);
    return result;
  }
  if (type == "dinov2") return of_dinov2(config, /*has_registers=*/false);
  if (type == "dinov2_with_registers") return of_dinov2(config, /*has_registers=*/true);
  if (type != "clip" && type != "clip_vision_model") return {};
  const bool is_whole = config.contains("vision_config") && config["vision_config"].is_object();
  PretrainedConfig result = of_transformers(is_whole ? config["vision_config"] : config);
  if (is_whole) read(config, "projection_dim", result.projection_dim);
  fill_in(result, kClipVision, kQuickGelu, 1e-5);
  return result;
}

namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

/// Returns a positive integer, or CLIPTextConfig's default if the file omits it.
std::int64_t count_at(const json& config, const char* key, std::int64_t otherwise) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return otherwise;
  if (!found->is_number_integer() || *found < 1)
    throw std::invalid_argument("its '" + std::string(key) + "' is " + found->dump() +
                                ", not a positive number");
  return found->get<std::int64_t>();
}

json section_of(const json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_object() ? *found : json::object();
}

/// Checks that both towers have the same activation, which model.clip requires.
void check_activation(const json& texts, const std::string& of_images) {
  const std::string of_texts = texts.value("hidden_act", json("quick_gelu")).dump();
  if (of_texts != json(of_images).dump())
    throw std::invalid_argument("its text tower has the activation " + of_texts +
                                ", and its image tower '" + of_images + "'");
}

}  // namespace

Json clip_options(const json& config) {
  const json type = config.is_object() ? config.value("model_type", json()) : json();
  if (type != "clip") {
    throw std::invalid_argument(type.is_string() ? "it describes a '" + type.get<std::string>() +
                                                       "', not a 'clip'"
                                                 : "it does not say that the model is a 'clip'");
  }
  json whole = config;
  whole["vision_config"] = section_of(config, "vision_config");
  const PretrainedConfig images = pretrained_config(whole);
  const json texts = section_of(config, "text_config");
  check_activation(texts, *images.hidden_act);
  constexpr std::int64_t kHighestId =
      2;  // in OpenAI's weights, this stands for the token with the highest id
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
