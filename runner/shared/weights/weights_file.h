#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace runner {

/// Returns the weights file that `reference` names, without reading any tensors. `reference` is one
/// of
/// - a file written by safetensors, torch.save or torch.jit.save;
///  - a model or adapter folder saved by transformers, peft or open_clip, with one weights file or
///    with shards and an index;
///  - "hf:ORG/NAME" or "hf:ORG/NAME@REVISION": such a folder in the huggingface_hub cache;
///    nothing is downloaded.
/// Throws StageError (kMissingWeights) if nothing is found or the folder is ambiguous.
std::filesystem::path find_weights(const std::string& reference);

/// A model description found next to the weights.
struct ConfigBeside {
  std::filesystem::path file;  ///< config.json; adapter_config.json next to an adapter
  std::string text;
  nlohmann::json json;  ///< the config; always a JSON object
};

/// Reads the config next to the weights file `weights`; returns nullopt if there is none. Throws
/// StageError (kDamagedWeights) if the config is not a JSON object.
std::optional<ConfigBeside> config_next_to(const std::filesystem::path& weights);

/// True if `text` specifies a model on the Hugging Face Hub: "hf:ORG/NAME" or
/// "hf:ORG/NAME@REVISION". The revision is a branch, a tag or a commit.
bool is_hub_reference(std::string_view text);

/// Returns $HF_HUB_CACHE or, failing that, $HF_HOME/hub or huggingface/hub under $XDG_CACHE_HOME or
/// ~/.cache.
std::filesystem::path hub_cache();

/// Returns the folder with the model's files in the huggingface_hub cache, below hub_cache().
/// Rejects names that the Hub does not allow, so the path cannot leave the cache. Throws StageError
/// (kMissingWeights) with advice on how to download what is missing.
std::filesystem::path hub_snapshot(std::string_view reference);

}  // namespace runner
