#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/model.h"
#include "stages/model/clip_network.h"
#include "stages/worker/requests.h"

namespace stages {

/// Exports a run's trained network in the format of another library.
///
/// {"graph", "node", "checkpoints", "what": "merged", "adapter" or "torchscript", "out", "names",
/// "head_inside"} → {"folder", "files"}, and "weights" ("averaged" or "trained") if training
/// averaged the weights.
///
/// The folder appears only when it is complete. Throws runner::StageError: kFolderExists, or
/// kOptionConflict if the library has no format for the network.
runner::Result<nlohmann::ordered_json> answer_export(const nlohmann::ordered_json& request,
                                                     const RequestContext& context);

/// Writes a trained CLIP model with both towers into `folder`: for transformers' CLIPModel and its
/// tokenizer ("merged"), or only its adapters, for use by peft on such a model ("adapter").
/// `network` belongs to `checkpoint` and is modified. `place` is the final path of the folder. A
/// class head is also written, to head.safetensors and classes.json. Throws runner::StageError if
/// these libraries have no format for the network.
void export_clip(const std::filesystem::path& folder, const std::filesystem::path& place,
                 const Checkpoint& checkpoint, ClipNetwork& network, const std::string& what,
                 const RequestContext& context);

}  // namespace stages
