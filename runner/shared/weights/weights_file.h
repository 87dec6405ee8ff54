#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace runner {

/// Finds the file that `reference` names, without reading a tensor. It is one of
/// - a file that safetensors, torch.save or torch.jit.save has written,
/// - a folder of a model or adapter, as transformers, peft and open_clip save them, whole or as shards with an index,
/// - "hf:ORG/NAME" or "hf:ORG/NAME@REVISION", such a folder in the cache of huggingface_hub; nothing is fetched.
/// Throws StageError (kMissingWeights) where nothing is there, and where a folder holds two things.
std::filesystem::path find_weights(const std::string& reference);

/// The description of a model that lies beside its weights.
struct ConfigBeside {
  std::filesystem::path file;  ///< config.json; adapter_config.json beside an adapter
  std::string text;
  nlohmann::json json;  ///< an object
};

/// That of the file `weights`; nullopt where there is none. Throws StageError (kDamagedWeights) where it is no JSON.
std::optional<ConfigBeside> config_beside(const std::filesystem::path& weights);

}  // namespace runner
