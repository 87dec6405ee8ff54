#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/model/vision_tower.h"
#include "stages/model/weight_names.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// A tower with its head under the names of a library, for export to files.
struct ExportedModel {
  NamedTensors tensors;   ///< of model.safetensors
  bool has_head = false;  ///< the head is among them; otherwise the library's model has none
};

/// The weights of `network` under the names of `layout`, whose library computes the same from them.
/// The network keeps its projections fused or separate as the layout does, and has no adapters.
ExportedModel exported(const ImageClassifier& network, WeightLayout layout);

/// The config.json with which the layout's library recreates that model. `classes`: names by label.
nlohmann::ordered_json exported_config(const ImageClassifierOptions& options, WeightLayout layout,
                                       const std::vector<std::string>& classes);

}  // namespace stages
