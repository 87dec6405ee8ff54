#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/weights/weights_file.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/safetensors.h"

namespace stages {

/// Weights as somebody's library has saved them.
struct SavedWeights {
  NamedTensors tensors;  ///< on the CPU, sorted by name, in the file's own types and names; none
                         ///< shares its memory
  std::optional<nlohmann::json>
      config;  ///< the config.json beside them; adapter_config.json beside an adapter
  std::filesystem::path where;  ///< the file they were read from; of shards: their index
  std::string sha256;           ///< of all their bytes: the same weights, the same text
  std::string
      inside;  ///< the keys of a checkpoint below which they stood: "state_dict"; empty: none
  std::vector<std::string> others;  ///< keys of other dictionaries of tensors in the file

  std::vector<std::string> renamed;  ///< how its names were made plain: "without '_orig_mod.'"

  /// "'state_dict_ema' of it (it also has 'state_dict'), without '_orig_mod.', "; empty where the
  /// file holds one model by plain names.
  std::string choice() const;
};

/// The name of a tensor without what torch.compile and wrappers of torch put into it, in the
/// spelling of today: "conv.weight" of "_orig_mod.conv.weight", "denselayer1.norm1.weight" of
/// "denselayer1.norm.1.weight". Every name that is read here is such a one.
std::string plain_weight_name(std::string name);

using runner::find_weights;

/// SavedWeights::config of what find_weights() finds. Throws as that, and kDamagedWeights.
std::optional<nlohmann::json> weights_config(const std::string& reference);

/// The digest SavedWeights::sha256 of what find_weights() finds, without a tensor in memory. Throws
/// as that.
std::string weights_sha256(const std::string& reference);

/// Reads what find_weights() finds. Nobody has vouched for it: every size is checked against the
/// file before memory is allocated for it, and nothing in it is run. Throws runner::StageError
/// (kMissingWeights, kDamagedWeights). Of shapes there is no digest. With an `entry`, only the
/// tensors below these keys or this part of their names are taken, by the rest of their names;
/// kOptionConflict where there are none, or a file holds several models.
SavedWeights read_saved_weights(const std::string& reference,
                                WeightContents contents = WeightContents::kNumbers,
                                const std::optional<std::string>& entry = {});
/// The same for tensors that need not be in memory together. Throws kDamagedWeights where the files
/// are not those with the digest `sha256`.
void read_saved_weights(const std::string& reference, const std::string& sha256,
                        const WeightSink& sink, const std::optional<std::string>& entry = {});

}  // namespace stages
