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

/// Weights saved by another library or program.
struct SavedWeights {
  /// On the CPU, sorted by name, with the file's types and plain_weight_name(); no two share
  /// memory.
  NamedTensors tensors;
  /// The config.json next to the weights, or the adapter_config.json next to an adapter.
  std::optional<nlohmann::json> config;
  std::filesystem::path where;  ///< the file with the weights; for shards, the index
  std::string sha256;           ///< digest of all bytes of the files
  /// The keys in the checkpoint that lead to the weights, such as "state_dict"; empty: none.
  std::string inside;
  std::vector<std::string> others;  ///< keys of other dictionaries of tensors in the file

  std::vector<std::string> renamed;  ///< how names were simplified: "without '_orig_mod.'"

  /// Returns "'state_dict_ema' of it (it also has 'state_dict'), without '_orig_mod.', " for
  /// messages; empty if the file has one model with plain names.
  std::string choice() const;
};

/// Returns a tensor's name without the prefixes of torch.compile and torch's wrappers, and spelled
/// as in current versions: "conv.weight" for "_orig_mod.conv.weight", "denselayer1.norm1.weight"
/// for "denselayer1.norm.1.weight". The functions below use such names.
std::string plain_weight_name(std::string name);

using runner::find_weights;

/// Returns SavedWeights::config for the weights that find_weights() finds. Throws like
/// find_weights(), and kDamagedWeights.
std::optional<nlohmann::json> weights_config(const std::string& reference);

/// Returns SavedWeights::sha256 for the weights that find_weights() finds, without loading tensors.
/// Throws like find_weights().
std::string weights_sha256(const std::string& reference);

/// Reads the weights that find_weights() finds. Files are not trusted: sizes are checked against
/// the file's size before memory is allocated, and no code in them is run. With kShapes, no digest
/// is computed. With an `entry`, only tensors below these keys, or with this prefix, are read, and
/// their names omit it. Throws runner::StageError (kMissingWeights, kDamagedWeights;
/// kOptionConflict if the entry has no tensors, or a file has several models).
SavedWeights read_saved_weights(const std::string& reference,
                                WeightContents contents = WeightContents::kNumbers,
                                const std::optional<std::string>& entry = {});
/// Passes the weights to `sink` piece by piece, in case they do not all fit in memory at once.
/// Throws kDamagedWeights if the files do not have the digest `sha256`.
void read_saved_weights(const std::string& reference, const std::string& sha256,
                        const WeightSink& sink, const std::optional<std::string>& entry = {});

}  // namespace stages
