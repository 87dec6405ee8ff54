#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace runner {

/// Finds the file that `reference` names, without reading a tensor. It is one of
/// - a file that safetensors, torch.save or torch.jit.save has written,
/// - a folder of a model or adapter, as transformers, peft and open_clip save them, whole or as
/// shards with an index,
/// - "hf:ORG/NAME" or "hf:ORG/NAME@REVISION", such a folder in the cache of huggingface_hub;
/// nothing is fetched. Throws StageError (kMissingWeights) where nothing is there, and where a
/// folder holds two things.
std::filesystem::path find_weights(const std::string& reference);

/// The description of a model that lies beside its weights.
struct ConfigBeside {
  std::filesystem::path file;  ///< config.json; adapter_config.json beside an adapter
  std::string text;
  nlohmann::json json;  ///< an object
};

/// That of the file `weights`; nullopt where there is none. Throws StageError (kDamagedWeights)
/// where it is no JSON.
std::optional<ConfigBeside> config_next_to(const std::filesystem::path& weights);

/// True for what names a model on the Hugging Face hub: "hf:ORG/NAME" or "hf:ORG/NAME@REVISION",
/// where the revision is a branch, a tag or a commit.
bool is_hub_reference(std::string_view text);

/// HF_HUB_CACHE, else HF_HOME/hub, else huggingface/hub in XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_cache();

/// The folder that holds the files of such a model as huggingface_hub keeps what it has fetched,
/// below hub_cache(). Names that the hub does not give are refused, and so none leaves the cache.
/// Throws StageError (kMissingWeights), saying how to fetch what is not there.
std::filesystem::path hub_snapshot(std::string_view reference);

}  // namespace runner
