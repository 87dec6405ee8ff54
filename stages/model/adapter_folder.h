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
  std::vector<std::string> classes;  ///< their names in order; empty: not known
};

/// A folder as peft saves adapters.
struct SavedAdapter {
  std::filesystem::path folder;  ///< where adapter_config.json is
  AdapterConfig config;
  NamedTensors tensors;  ///< without "base_model.model."
  std::optional<AdapterHead>
      head;  ///< of head.safetensors and classes.json beside them, which are ours
};

/// Reads adapter_config.json, adapter_model.safetensors (or adapter_model.bin) and, where they are
/// there, head.safetensors and classes.json. `folder` may also hold one folder that has them: a
/// named adapter. Nobody has vouched for what is in it. Throws runner::StageError.
SavedAdapter read_adapter(const std::filesystem::path& folder);

/// Which of the libraries' names the adapter's tensors bear: that by which the most of them belong
/// to modules of the network. Throws runner::StageError where none do by any.
std::size_t names_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network,
                             std::span<const ModuleNames> libraries);

/// Where the adapter has our head among its modules to save, under the name that the library has
/// for it, takes it out of there and makes it saved.head, with the classes of classes.json. Throws
/// runner::StageError where it is no head.
void take_head(SavedAdapter& saved, const ModuleNames& names);

/// Copies the tensors of `saved` into adapters that were attached by the same names, across types
/// and devices. The adapters must be those that its options mean, with its ranks and scalings;
/// every tensor must be there with its shape, and no other may, but for CLIP's text tower. Gives
/// notes on what is left out. Throws runner::StageError saying all that does not fit, and then has
/// changed nothing.
std::vector<std::string> load_adapter(const AttachedLora& lora, const SavedAdapter& saved,
                                      const ModuleNames& names);

/// What save_adapter() says of the model that the adapter belongs to.
struct AdapterBase {
  std::string base_class;      ///< "CLIPVisionModel"
  std::string parent_library;  ///< "transformers.models.clip.modeling_clip"
  std::optional<std::string> name_or_path;
  std::optional<std::string> revision = {};  ///< of a repository
};

/// Writes head.safetensors and classes.json into a folder that is there.
void save_head(const std::filesystem::path& folder, const AdapterHead& head,
               runner::Storage& storage = runner::disk());

/// Writes what read_adapter() and peft read, by the names of `names`; the folder is made. A head is
/// written beside the adapter, as head.safetensors and classes.json. Throws runner::StageError and
/// runner::WriteError.
void save_adapter(const std::filesystem::path& folder, const AttachedLora& lora,
                  const ModuleNames& names, const AdapterBase& base,
                  const std::optional<AdapterHead>& head = {},
                  runner::Storage& storage = runner::disk());

/// The same with the head as a module to save of the adapter, under the name that the library has
/// for ours, "head". Throws runner::StageError where it has none.
void save_adapter_with_head(const std::filesystem::path& folder, const AttachedLora& lora,
                            const ModuleNames& names, const AdapterBase& base,
                            const AdapterHead& head, runner::Storage& storage = runner::disk());

/// Where a library finds the weights below a network's adapters by itself.
struct PublishedBase {
  std::string name_or_path;  ///< "openai/clip-vit-base-patch32", or a folder that it has saved
  std::optional<std::string> revision;  ///< of a repository
};

/// The base of `network` as the library of `layout` loads it, with position embeddings for the
/// network's image size; nullopt where it does not: the weights are random, or another library's,
/// or for images of another size.
std::optional<PublishedBase> published_base(const FineTunedClassifier& network,
                                            WeightLayout layout);

/// The same of a CLIP of both towers, as transformers' CLIPModel.
std::optional<PublishedBase> published_base(const AdaptedClip& network);

}  // namespace stages
