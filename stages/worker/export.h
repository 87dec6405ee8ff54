#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/model.h"
#include "stages/model/clip_network.h"
#include "stages/worker/requests.h"

namespace stages {

/// Writes the network that a run has trained as other libraries load it.
/// {"graph", "node", "checkpoints", "what": "merged", "adapter" or "torchscript", "out", "names",
/// "head_inside"} →
/// {"folder", "files"}, and "weights", "averaged" or "trained", of a training that averages them.
/// The folder appears when it is whole, or not at all. Throws runner::StageError: kFolderExists,
/// and kOptionConflict for what a library has no form for.
runner::Result<nlohmann::ordered_json> answer_export(const nlohmann::ordered_json& request,
                                                     const RequestContext& context);

/// Writes a trained CLIP of both towers into `folder` as transformers' CLIPModel and its tokenizer
/// load it ("merged"), or its adapters as peft loads them on such a model ("adapter"); `network` is
/// the checkpoint's, and is changed. `place` is where the folder will stand. A class head is
/// written beside, as head.safetensors and classes.json. Throws runner::StageError for what those
/// libraries have no form for.
void export_clip(const std::filesystem::path& folder, const std::filesystem::path& place,
                 const Checkpoint& checkpoint, ClipNetwork& network, const std::string& what,
                 const RequestContext& context);

}  // namespace stages
