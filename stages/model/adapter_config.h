#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/model/lora_targets.h"

namespace stages {

/// The contents of peft's adapter_config.json.
struct AdapterConfig {
  LoraOptions options;
  std::string base_class;      ///< class of the wrapped model: "CLIPVisionModel"; empty: not given
  std::string parent_library;  ///< module of that class
  std::optional<std::string> base_model;  ///< name or path of its weights
  std::optional<std::string> revision;    ///< revision of its weights
  std::vector<std::string> notes = {};    ///< for the user: options that have no effect
};

/// Parses an adapter_config.json. Missing keys get peft's defaults. Unknown keys are accepted if
/// they are null, false or empty; otherwise they are rejected, since they may request a variant of
/// LoRA. Throws std::invalid_argument, naming the key and the problem.
AdapterConfig parse_adapter_config(std::string_view text);

/// Returns the text of an adapter_config.json that every version of peft can read, unless modules
/// are excluded, which requires peft 0.14. Patterns keep their order, since peft tries them in
/// order.
std::string to_text(const AdapterConfig& config);

}  // namespace stages
