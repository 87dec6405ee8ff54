#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "stages/named_tensors.h"

namespace stages {

/// Weights as somebody's library has saved them.
struct SavedWeights {
  NamedTensors tensors;  ///< on the CPU, sorted by name, in the file's own types and names; none shares its memory
  std::optional<nlohmann::json> config;  ///< the config.json beside them
  std::filesystem::path where;           ///< the file they were read from
  std::string sha256;                    ///< of all their bytes: the same weights, the same text
};

/// Finds the file that `reference` names, without reading a tensor: it is the file itself. Throws runner::StageError
/// (kMissingWeights).
std::filesystem::path find_weights(const std::string& reference);

/// Reads what find_weights() finds. Nobody has vouched for it: every size is checked against the file before memory is
/// allocated for it. Throws runner::StageError (kMissingWeights, kDamagedWeights).
SavedWeights read_saved_weights(const std::string& reference);

}  // namespace stages
