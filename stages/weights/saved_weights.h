#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// Weights as somebody's library has saved them.
struct SavedWeights {
  NamedTensors tensors;  ///< on the CPU, sorted by name, in the file's own types and names; none shares its memory
  std::optional<nlohmann::json> config;  ///< the config.json beside them; adapter_config.json beside an adapter
  std::filesystem::path where;           ///< the file they were read from; of shards: their index
  std::string sha256;                    ///< of all their bytes: the same weights, the same text
  std::string inside;                    ///< the keys of a checkpoint below which they stood: "state_dict"; empty: none
};

/// Finds the file that `reference` names, without reading a tensor. It is one of
/// - a file that safetensors, torch.save or torch.jit.save has written,
/// - a folder of a model or adapter, as transformers, peft and open_clip save them, whole or as shards with an index,
/// - "hf:ORG/NAME" or "hf:ORG/NAME@REVISION", such a folder in the cache of huggingface_hub; nothing is fetched.
/// Throws runner::StageError (kMissingWeights) where nothing is there, and where a folder holds two things.
std::filesystem::path find_weights(const std::string& reference);

/// SavedWeights::config of what find_weights() finds. Throws as that, and kDamagedWeights.
std::optional<nlohmann::json> weights_config(const std::string& reference);

/// The digest SavedWeights::sha256 of what find_weights() finds, without a tensor in memory. Throws as that.
std::string weights_sha256(const std::string& reference);

/// Reads what find_weights() finds. Nobody has vouched for it: every size is checked against the file before memory is
/// allocated for it, and nothing in it is run. Throws runner::StageError (kMissingWeights, kDamagedWeights).
SavedWeights read_saved_weights(const std::string& reference);

}  // namespace stages
