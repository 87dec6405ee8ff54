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

/// Weights as saved by another library or program.
struct SavedWeights {
  NamedTensors tensors;  ///< on the CPU, sorted by name, in the file's own types and names; none
                         ///< shares its memory
  std::optional<nlohmann::json>
      config;  ///< the config.json next to them; adapter_config.json next to an adapter
  std::filesystem::path where;      ///< the file they were read from; for shards, their index
  std::string sha256;               ///< of all their bytes; equal for equal weights
  std::string inside;               ///< the checkpoint's keys above them: "state_dict"; empty: none
  std::vector<std::string> others;  ///< keys of other dictionaries of tensors in the file

  std::vector<std::string> renamed;  ///< how names were simplified: "without '_orig_mod.'"

  /// "'state_dict_ema' of it (it also has 'state_dict'), without '_orig_mod.', "; empty if the file
  /// has one model with plain names.
  std::string choice() const;
};

/// A tensor's name without the prefixes of torch.compile and torch's wrappers, in current spelling:
/// "conv.weight" for "_orig_mod.conv.weight", "denselayer1.norm1.weight" for
/// "denselayer1.norm.1.weight". All names returned here have this form.
std::string plain_weight_name(std::string name);

using runner::find_weights;

/// SavedWeights::config of what find_weights() finds. Throws as that does, and kDamagedWeights.
std::optional<nlohmann::json> weights_config(const std::string& reference);

/// SavedWeights::sha256 of what find_weights() finds, without loading a tensor. Throws as that
/// does.
std::string weights_sha256(const std::string& reference);

/// Reads what find_weights() finds. The file is untrusted: every size is checked against the file
/// before memory is allocated for it, and no code in it is run. Throws runner::StageError
/// (kMissingWeights, kDamagedWeights). With shapes only, there is no digest. With an `entry`, only
/// the tensors below these keys or this prefix of their names are read, named by the rest of their
/// names; kOptionConflict if there are none, or a file has several models.
SavedWeights read_saved_weights(const std::string& reference,
                                WeightContents contents = WeightContents::kNumbers,
                                const std::optional<std::string>& entry = {});
/// The same for tensors that are too large to hold in memory together. Throws kDamagedWeights if
/// the files do not have the digest `sha256`.
void read_saved_weights(const std::string& reference, const std::string& sha256,
                        const WeightSink& sink, const std::optional<std::string>& entry = {});

}  // namespace stages
