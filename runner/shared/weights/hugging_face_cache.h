#pragma once

#include <filesystem>
#include <string_view>

namespace runner {

/// True for what names a model on the Hugging Face hub: "hf:ORG/NAME" or "hf:ORG/NAME@REVISION", where the revision is
/// a branch, a tag or a commit.
bool is_hub_reference(std::string_view text);

/// HF_HUB_CACHE, else HF_HOME/hub, else huggingface/hub in XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_cache();

/// The folder that holds the files of such a model as huggingface_hub keeps what it has fetched, below hub_cache().
/// Names that the hub does not give are refused, and so none leaves the cache. Throws StageError (kMissingWeights),
/// saying how to fetch what is not there.
std::filesystem::path hub_snapshot(std::string_view reference);

}  // namespace runner
