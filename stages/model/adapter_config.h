#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/model/lora_targets.h"

namespace stages {

/// The content of peft's adapter_config.json.
struct AdapterConfig {
  LoraOptions options;
  std::string base_class;      ///< class of the wrapped model: "CLIPVisionModel"; empty: not given
  std::string parent_library;  ///< module of that class
  std::optional<std::string> base_model;  ///< name or path of its weights
  std::optional<std::string> revision;    ///< of those weights
  std::vector<std::string> notes = {};    ///< options given without effect, for the user
};

/// Parses an adapter_config.json. Absent keys take peft's defaults. An unknown key may be null,
/// false or empty; one that asks for a variant of LoRA is refused. Throws std::invalid_argument
/// that names the key and the problem.
AdapterConfig parse_adapter_config(std::string_view text);

/// The text as peft writes it, with the keys that every version of peft knows. Patterns keep their
/// order, in which they are tried.
std::string to_text(const AdapterConfig& config);

}  // namespace stages
