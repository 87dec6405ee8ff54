#include "stages/model/adapter_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/value/parse_json.h"
#include "stages/text/expression.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;  // keeps the file's order, in which patterns are tried

[[noreturn]] void refuse_config(const std::string& why) { throw std::invalid_argument(why); }

/// Returns a value for a message, shortened if it is long.
std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 60) + "…";
}

[[noreturn]] void refuse_type(const std::string& key, const char* wanted, const Json& value) {
  refuse_config("'" + key + "' is " + shown(value) + ", not " + wanted);
}

bool says_nothing(const Json& value) {
  return value.is_null() || value == false ||
         (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         ((value.is_array() || value.is_object()) && value.empty());
}

/// Keys that do not affect what an adapter computes, or affect it only together with rejected keys.
constexpr std::array kWithoutEffect = {"inference_mode", "megatron_core",     "peft_version",
                                       "task_type",      "qalora_group_size", "runtime_config"};

/// Reads the members of a config, each of them once; finish() rejects the rest.
class Members {
 public:
  explicit Members(const Json& config) : config_(config) {}

  /// Returns the value of `key`; nullptr if it is absent or null.
  const Json* take(const std::string& key) {
    taken_.push_back(key);
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  void read(const std::string& key, bool& field) {
    const Json* value = take(key);
    if (value && !value->is_boolean()) refuse_type(key, "true or false", *value);
    if (value) field = value->get<bool>();
  }
  void read(const std::string& key, double& field) {
    const Json* value = take(key);
    if (value) field = number(key, *value);
  }
  void read(const std::string& key, std::optional<std::string>& field) {
    const Json* value = take(key);
    if (value && !value->is_string()) refuse_type(key, "a string", *value);
    if (value) field = value->get<std::string>();
  }
  void read(const std::string& key, std::vector<std::string>& field) {
    if (const Json* value = take(key)) field = texts(key, *value);
  }
  void read(const std::string& key, ModuleSelection& field) {
    const Json* value = take(key);
    if (!value) return;
    if (value->is_string()) field = value->get<std::string>();
    else field = texts(key, *value);
  }
  template <typename T>
  void read(const std::string& key, std::vector<std::pair<std::string, T>>& field) {
    const Json* value = take(key);
    if (!value) return;
    if (!value->is_object()) refuse_type(key, "a mapping", *value);
    for (const auto& [pattern, item] : value->items()) {
      if constexpr (std::is_same_v<T, double>) field.emplace_back(pattern, number(key, item));
      else field.emplace_back(pattern, count(key, item, 1));
    }
  }
  /// Returns `value` if it is an integer from `least` to 16384; otherwise rejects it.
  static std::int64_t count(const std::string& key, const Json& value, std::int64_t least) {
    constexpr std::int64_t kMost = 16384;
    const bool fits = value.is_number_integer() && value >= least && value <= kMost;
    if (!fits)
      refuse_type(key, least == 0 ? "a number from 0 to 16384" : "a number from 1 to 16384", value);
    return value.get<std::int64_t>();
  }
  static double number(const std::string& key, const Json& value) {
    if (!value.is_number()) refuse_type(key, "a number", value);
    return value.get<double>();
  }
  static std::vector<std::string> texts(const std::string& key, const Json& value) {
    if (!value.is_array()) refuse_type(key, "a list of names", value);
    std::vector<std::string> result;
    for (const Json& item : value) {
      if (!item.is_string()) refuse_type(key, "a list of names", value);
      result.push_back(item.get<std::string>());
    }
    return result;
  }
  /// Rejects members that have a value but were not read.
  void finish() const {
    for (const auto& [key, value] : config_.items()) {
      if (std::ranges::find(taken_, key) != taken_.end() || says_nothing(value)) continue;
      if (std::ranges::find(kWithoutEffect, key) != kWithoutEffect.end()) continue;
      refuse_config("'" + shown(Json(key)).substr(1, key.size()) + "' is " + shown(value) +
                    ", but only LoRA and DoRA are supported");
    }
  }

 private:
  const Json& config_;
  std::vector<std::string> taken_;
};

void check_expressions(const LoraOptions& options) {
  const auto check = [](const std::string& key, const std::string& text) {
    try {
      const Expression compiled(text);
    } catch (const std::invalid_argument& error) {
      refuse_config("'" + key + "' has '" + text +
                    "', which is not a regular expression: " + error.what());
    }
  };
  if (const auto* text = std::get_if<std::string>(&options.targets)) check("target_modules", *text);
  if (const auto* text = std::get_if<std::string>(&options.exclude))
    check("exclude_modules", *text);
  for (const auto& text : options.layers_pattern) check("layers_pattern", text);
  for (const auto& [text, rank] : options.rank_pattern) check("rank_pattern", text);
  for (const auto& [text, alpha] : options.alpha_pattern) check("alpha_pattern", text);
}

void read_layers(Members& members, LoraOptions& options) {
  if (const Json* layers = members.take("layers_to_transform")) {
    if (layers->is_number()) options.layers = {Members::count("layers_to_transform", *layers, 0)};
    else if (!layers->is_array()) refuse_type("layers_to_transform", "a list of numbers", *layers);
    else
      for (const Json& item : *layers)
        options.layers.push_back(Members::count("layers_to_transform", item, 0));
  }
  if (const Json* pattern = members.take("layers_pattern")) {
    if (!pattern->is_string()) options.layers_pattern = Members::texts("layers_pattern", *pattern);
    else if (!pattern->get_ref<const std::string&>().empty())
      options.layers_pattern = {pattern->get<std::string>()};
  }
  if (std::holds_alternative<std::string>(options.targets) &&
      !(options.layers.empty() && options.layers_pattern.empty()))
    refuse_config(
        "'layers_to_transform' and 'layers_pattern' cannot be used when 'target_modules' is an "
        "expression");
}

LoraBias read_bias(Members& members) {
  const Json* value = members.take("bias");
  if (!value || *value == "none") return LoraBias::kNone;
  if (*value == "all") return LoraBias::kAll;
  if (*value == "lora_only") return LoraBias::kAdapted;
  refuse_type("bias", "\"none\", \"all\" or \"lora_only\"", *value);
}

LoraInitialization read_initialization(Members& members) {
  const Json* value = members.take("init_lora_weights");
  if (!value || *value == true) return LoraInitialization::kKaiming;
  if (*value == false) return LoraInitialization::kRandom;
  if (*value == "gaussian") return LoraInitialization::kGaussian;
  refuse_config(
      "'init_lora_weights' is " + shown(*value) +
      ", which may have changed the base weights: convert the adapter to plain LoRA first");
}

void read_base(Members& members, AdapterConfig& config) {
  members.read("base_model_name_or_path", config.base_model);
  members.read("revision", config.revision);
  const Json* mapping = members.take("auto_mapping");
  if (!mapping || !mapping->is_object()) return;
  const auto text = [&](const char* key) {
    const auto found = mapping->find(key);
    return found != mapping->end() && found->is_string() ? found->get<std::string>()
                                                         : std::string();
  };
  config.base_class = text("base_model_class");
  config.parent_library = text("parent_library");
}

/// Returns a number as Python would write it: 16, 0.5.
Json plain(double number) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(number) == number && std::abs(number) < kExact)
    return static_cast<std::int64_t>(number);
  return number;
}

Json json_of(const ModuleSelection& selection) {
  if (const auto* text = std::get_if<std::string>(&selection)) return *text;
  return std::get<std::vector<std::string>>(selection);
}

template <typename T>
Json json_of(const std::vector<std::pair<std::string, T>>& patterns) {
  Json result = Json::object();
  for (const auto& [pattern, number] : patterns)
    result[pattern] = plain(static_cast<double>(number));
  return result;
}

const char* word(LoraBias bias) {
  switch (bias) {
    case LoraBias::kNone:
      return "none";
    case LoraBias::kAll:
      return "all";
    case LoraBias::kAdapted:
      return "lora_only";
  }
  return "";
}

Json json_of(LoraInitialization initialization) {
  switch (initialization) {
    case LoraInitialization::kKaiming:
      return true;
    case LoraInitialization::kGaussian:
      return "gaussian";
    case LoraInitialization::kPrincipal:
      return "pissa";
    case LoraInitialization::kRandom:
      return false;
  }
  return nullptr;
}

template <typename T>
Json or_null(const std::vector<T>& items) {
  return items.empty() ? Json(nullptr) : Json(items);
}

}  // namespace

AdapterConfig parse_adapter_config(std::string_view text) {
  constexpr std::size_t kDepth = 16;
  if (runner::nests_deeper(text, kDepth)) refuse_config("it is nested too deeply");
  const Json json = runner::parse_json<Json>(text);
  if (json.is_discarded()) refuse_config("it is not JSON");
  if (!json.is_object()) refuse_config("it is not a mapping");
  Members members(json);
  const Json* type = members.take("peft_type");
  if (!type) refuse_config("it has no 'peft_type'");
  if (*type != "LORA")
    refuse_config("'peft_type' is " + shown(*type) + ", but only LORA is supported");

  AdapterConfig config;
  LoraOptions& options = config.options;
  if (const Json* rank = members.take("r")) options.rank = Members::count("r", *rank, 1);
  members.read("lora_alpha", options.alpha);
  members.read("lora_dropout", options.dropout);
  if (!(options.dropout >= 0 && options.dropout < 1))
    refuse_config("'lora_dropout' is not a probability below 1");
  members.read("use_rslora", options.rank_stabilized);
  members.read("use_dora", options.dora);
  members.read("target_modules", options.targets);
  members.read("exclude_modules", options.exclude);
  members.read("rank_pattern", options.rank_pattern);
  members.read("alpha_pattern", options.alpha_pattern);
  members.read("modules_to_save", options.modules_to_save);
  options.bias = read_bias(members);
  options.initialization = read_initialization(members);
  read_layers(members, options);
  read_base(members, config);
  bool is_transposed = false;
  members.read("fan_in_fan_out", is_transposed);
  if (is_transposed)
    config.notes.push_back(
        "fan_in_fan_out has no effect: no layer here stores its weight transposed");
  members.finish();
  if (options.targets == ModuleSelection()) refuse_config("it has no 'target_modules'");
  check_expressions(options);
  return config;
}

std::string to_text(const AdapterConfig& config) {
  const LoraOptions& options = config.options;
  const auto or_null_text = [](const std::optional<std::string>& text) {
    return text ? Json(*text) : Json(nullptr);
  };
  Json json = {
      {"alpha_pattern", json_of(options.alpha_pattern)},
      {"auto_mapping",
       {{"base_model_class", config.base_class}, {"parent_library", config.parent_library}}},
      {"base_model_name_or_path", or_null_text(config.base_model)},
      {"bias", word(options.bias)},
  };
  // peft before 0.14 does not know this key and rejects configs with unknown keys.
  if (options.exclude != ModuleSelection()) json["exclude_modules"] = json_of(options.exclude);
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_lora_weights"] = json_of(options.initialization);
  json["layers_pattern"] = options.layers_pattern.size() == 1 ? Json(options.layers_pattern.front())
                                                              : or_null(options.layers_pattern);
  json["layers_to_transform"] = or_null(options.layers);
  json["lora_alpha"] = plain(options.alpha);
  json["lora_dropout"] = options.dropout;
  json["modules_to_save"] = or_null(options.modules_to_save);
  json["peft_type"] = "LORA";
  json["r"] = options.rank;
  json["rank_pattern"] = json_of(options.rank_pattern);
  json["revision"] = or_null_text(config.revision);
  json["target_modules"] = json_of(options.targets);
  json["task_type"] = nullptr;
  if (options.dora) json["use_dora"] = true;  // peft before 0.9 does not know this key
  json["use_rslora"] = options.rank_stabilized;
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace stages
