#pragma once

#include <filesystem>
#include <string>

#include "stages/artifact/checkpoint.h"
#include "stages/model/clip_network.h"
#include "stages/worker/requests.h"

namespace stages {

/// Writes a trained CLIP of both towers into `folder` as transformers' CLIPModel and its tokenizer load it ("merged"),
/// or its adapters as peft loads them on such a model ("adapter"); `network` is the checkpoint's, and is changed.
/// `place` is where the folder will stand. A class head is written beside, as head.safetensors and classes.json. Throws
/// runner::StageError for what those libraries have no form for.
void export_clip(const std::filesystem::path& folder, const std::filesystem::path& place, const Checkpoint& checkpoint,
                 ClipNetwork& network, const std::string& what, const RequestContext& context);

}  // namespace stages
