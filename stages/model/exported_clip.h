#pragma once

#include <nlohmann/json_fwd.hpp>

#include "stages/model/clip_network.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// The weights of a CLIP of both towers by the names of transformers' CLIPModel, as model.safetensors has them, which
/// has none for the class head. The network has no adapters.
NamedTensors exported(const ClipNetwork& network);

/// The config.json with which transformers makes that CLIPModel again.
nlohmann::ordered_json exported_config(const ClipOptions& options);

}  // namespace stages
