#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/model/lora_targets.h"

namespace stages {

/// What an adapter_config.json of peft says.
struct AdapterConfig {
  LoraOptions options;
  std::string base_class;      ///< class of the wrapped model: "CLIPVisionModel"; empty: not said
  std::string parent_library;  ///< module of that class
  std::optional<std::string> base_model;  ///< name or path of its weights
  std::optional<std::string> revision;    ///< of those
  std::vector<std::string> notes = {};    ///< what it says and has no effect, for the user
};

/// Reads the text of one. Absent keys take peft's defaults. A key that is not known may say null,
/// false or nothing; one that asks for a variant of LoRA is refused. Throws std::invalid_argument
/// naming the key and what is wrong.
AdapterConfig parse_adapter_config(std::string_view text);

/// The text as peft writes it, with the keys that every version of it knows. Patterns keep their
/// order, in which they are tried.
std::string to_text(const AdapterConfig& config);

}  // namespace stages
