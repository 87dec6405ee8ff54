#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/artifact/ordinal_head.h"
#include "stages/model/adapter_config.h"
#include "stages/model/attached_lora.h"
#include "stages/model/clip_network.h"
#include "stages/model/fine_tuned.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// A classification head that belongs to an adapter.
struct AdapterHead {
  at::Tensor weight;                 ///< (outputs, features)
  at::Tensor bias;                   ///< (outputs)
  std::vector<std::string> classes;  ///< their names in order; empty: unknown
  /// Determines the number of outputs: one per class or, for ordered classes, one fewer.
  OrdinalHead ordinal = OrdinalHead::kNone;
};

/// An adapter read from a folder in peft's format.
struct SavedAdapter {
  std::filesystem::path folder;  ///< contains adapter_config.json
  AdapterConfig config;
  NamedTensors tensors;  ///< their names lack the prefix "base_model.model."
  std::optional<AdapterHead>
      head;  ///< from Retort's own files in the folder: head.safetensors and classes.json
};

/// Reads adapter_config.json, adapter_model.safetensors (or adapter_model.bin) and, if present,
/// head.safetensors and classes.json. The files are in `folder` or, for a named adapter, in its
/// only subfolder that contains an adapter. The contents are untrusted. Throws runner::StageError.
SavedAdapter read_adapter(const std::filesystem::path& folder);

/// Returns the index in `libraries` of the naming scheme that the adapter's tensors use: the one
/// under which the most tensors belong to modules of the network. Throws runner::StageError if no
/// scheme assigns a tensor to a module.
std::size_t names_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network,
                             std::span<const ModuleNames> libraries);

/// If the adapter's tensors include the head, saved as one of its modules_to_save under the
/// library's name, moves it to saved.head, with the classes from classes.json. Throws
/// runner::StageError if that module is not a head.
void take_head(SavedAdapter& saved, const ModuleNames& names);

/// Copies the tensors of `saved` into the adapters of `lora`, converting types and devices. The
/// options in `saved` must select exactly these adapters, with the same ranks and scalings. Each
/// tensor of the adapters must be in `saved` with the same shape. `saved` may contain no other
/// tensors, except those of CLIP's text tower. Returns notes on what was left out. Throws
/// runner::StageError listing everything that does not match; in that case nothing is changed.
std::vector<std::string> load_adapter(const AttachedLora& lora, const SavedAdapter& saved,
                                      const ModuleNames& names);

/// The model that an adapter belongs to, as recorded by save_adapter().
struct AdapterBase {
  std::string base_class;      ///< "CLIPVisionModel"
  std::string parent_library;  ///< "transformers.models.clip.modeling_clip"
  std::optional<std::string> name_or_path;
  std::optional<std::string> revision = {};  ///< revision of that repository
};

/// Writes head.safetensors and classes.json into an existing folder.
void save_head(const std::filesystem::path& folder, const AdapterHead& head,
               runner::Storage& storage = runner::disk());

/// Creates `folder` and writes the adapter into it with tensor names from `names`, for
/// read_adapter() and peft. A head is written next to the adapter, as head.safetensors and
/// classes.json. Throws runner::StageError and runner::WriteError.
void save_adapter(const std::filesystem::path& folder, const AttachedLora& lora,
                  const ModuleNames& names, const AdapterBase& base,
                  const std::optional<AdapterHead>& head = {},
                  runner::Storage& storage = runner::disk());

/// Like save_adapter(), but saves the head in the adapter, as one of its modules_to_save, under the
/// library's name for our "head". Throws runner::StageError if the library has no such name.
void save_adapter_with_head(const std::filesystem::path& folder, const AttachedLora& lora,
                            const ModuleNames& names, const AdapterBase& base,
                            const AdapterHead& head, runner::Storage& storage = runner::disk());

}  // namespace stages
