#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/model/adapter_config.h"
#include "stages/model/attached_lora.h"
#include "stages/model/clip_network.h"
#include "stages/model/fine_tuned.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// A classification head that belongs to an adapter.
struct AdapterHead {
  at::Tensor weight;                 ///< (classes, features)
  at::Tensor bias;                   ///< (classes)
  std::vector<std::string> classes;  ///< their names in order; empty: unknown
};

/// A folder in the format in which peft saves adapters.
struct SavedAdapter {
  std::filesystem::path folder;  ///< contains adapter_config.json
  AdapterConfig config;
  NamedTensors tensors;  ///< without "base_model.model."
  std::optional<AdapterHead>
      head;  ///< from head.safetensors and classes.json next to them, our own files
};

/// Reads adapter_config.json, adapter_model.safetensors (or adapter_model.bin) and, if present,
/// head.safetensors and classes.json. `folder` may also contain one folder that has them: a named
/// adapter. The content is untrusted. Throws runner::StageError.
SavedAdapter read_adapter(const std::filesystem::path& folder);

/// Finds which library's names the adapter's tensors have: those by which the most tensors belong
/// to modules of the network. Throws runner::StageError if none belong by any names.
std::size_t names_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network,
                             std::span<const ModuleNames> libraries);

/// If the adapter has our head among its modules_to_save, under the library's name, moves it from
/// there to saved.head, with the classes of classes.json. Throws runner::StageError if the module
/// is not a head.
void take_head(SavedAdapter& saved, const ModuleNames& names);

/// Copies the tensors of `saved` into adapters that were attached by the same names, across types
/// and devices. The adapters must be those that its options describe, with its ranks and scalings.
/// Every tensor must be there with its shape, and no others except those of CLIP's text tower.
/// Returns notes on what was left out. Throws runner::StageError listing everything that does not
/// fit, and then changes nothing.
std::vector<std::string> load_adapter(const AttachedLora& lora, const SavedAdapter& saved,
                                      const ModuleNames& names);

/// What save_adapter() writes about the model that the adapter belongs to.
struct AdapterBase {
  std::string base_class;      ///< "CLIPVisionModel"
  std::string parent_library;  ///< "transformers.models.clip.modeling_clip"
  std::optional<std::string> name_or_path;
  std::optional<std::string> revision = {};  ///< of a repository
};

/// Writes head.safetensors and classes.json into an existing folder.
void save_head(const std::filesystem::path& folder, const AdapterHead& head,
               runner::Storage& storage = runner::disk());

/// Writes a folder that read_adapter() and peft can read, with the names of `names`; creates the
/// folder. A head is written next to the adapter, as head.safetensors and classes.json. Throws
/// runner::StageError and runner::WriteError.
void save_adapter(const std::filesystem::path& folder, const AttachedLora& lora,
                  const ModuleNames& names, const AdapterBase& base,
                  const std::optional<AdapterHead>& head = {},
                  runner::Storage& storage = runner::disk());

/// The same with the head as one of the adapter's modules_to_save, under the library's name for our
/// "head". Throws runner::StageError if the library has no such name.
void save_adapter_with_head(const std::filesystem::path& folder, const AttachedLora& lora,
                            const ModuleNames& names, const AdapterBase& base,
                            const AdapterHead& head, runner::Storage& storage = runner::disk());

/// Where a library finds the base weights of a network's adapters by itself.
struct PublishedBase {
  std::string name_or_path;  ///< "openai/clip-vit-base-patch32", or a folder saved by the library
  std::optional<std::string> revision;  ///< of a repository
};

/// The base of `network` as the library of `layout` loads it, with position embeddings for the
/// network's image size. nullopt if the library cannot load it: the weights are random, or another
/// library's, or for another image size.
std::optional<PublishedBase> published_base(const FineTunedClassifier& network,
                                            WeightLayout layout);

/// The same for a CLIP with both towers, as transformers' CLIPModel.
std::optional<PublishedBase> published_base(const AdaptedClip& network);

}  // namespace stages
