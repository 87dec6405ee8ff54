#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/weights/weights_file.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/safetensors.h"

namespace stages {

/// Weights as somebody's library has saved them.
struct SavedWeights {
  NamedTensors tensors;  ///< on the CPU, sorted by name, in the file's own types and names; none shares its memory
  std::optional<nlohmann::json> config;  ///< the config.json beside them; adapter_config.json beside an adapter
  std::filesystem::path where;           ///< the file they were read from; of shards: their index
  std::string sha256;                    ///< of all their bytes: the same weights, the same text
  std::string inside;                    ///< the keys of a checkpoint below which they stood: "state_dict"; empty: none
};

using runner::find_weights;

/// SavedWeights::config of what find_weights() finds. Throws as that, and kDamagedWeights.
std::optional<nlohmann::json> weights_config(const std::string& reference);

/// The digest SavedWeights::sha256 of what find_weights() finds, without a tensor in memory. Throws as that.
std::string weights_sha256(const std::string& reference);

/// Reads what find_weights() finds. Nobody has vouched for it: every size is checked against the file before memory is
/// allocated for it, and nothing in it is run. Throws runner::StageError (kMissingWeights, kDamagedWeights).
/// Of shapes there is no digest.
SavedWeights read_saved_weights(const std::string& reference, WeightContents contents = WeightContents::kNumbers);
/// The same for tensors that need not be in memory together. Throws kDamagedWeights where the files are not those with
/// the digest `sha256`.
void read_saved_weights(const std::string& reference, const std::string& sha256, const WeightSink& sink);

}  // namespace stages
