#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/model.h"
#include "stages/model/clip_network.h"
#include "stages/worker/requests.h"

namespace stages {

/// Exports a trained network of a run in the format of other libraries.
///
/// {"graph", "node", "checkpoints", "what": "merged", "adapter" or "torchscript", "out", "names",
/// "head_inside"} → {"folder", "files"}, and "weights", "averaged" or "trained", if the training
/// averages them.
///
/// The folder appears only when it is complete. Throws runner::StageError: kFolderExists, and
/// kOptionConflict if a library has no format for the network.
runner::Result<nlohmann::ordered_json> answer_export(const nlohmann::ordered_json& request,
                                                     const RequestContext& context);

/// Writes a trained CLIP of both towers into `folder`: as transformers' CLIPModel and its tokenizer
/// load it ("merged"), or its adapters as peft loads them on such a model ("adapter"). `network` is
/// the checkpoint's, and is modified. `place` is the folder's final path. A class head is written
/// as head.safetensors and classes.json in addition. Throws runner::StageError if those libraries
/// have no format for the network.
void export_clip(const std::filesystem::path& folder, const std::filesystem::path& place,
                 const Checkpoint& checkpoint, ClipNetwork& network, const std::string& what,
                 const RequestContext& context);

}  // namespace stages
