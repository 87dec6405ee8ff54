#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/model/vision_tower.h"
#include "stages/model/weight_names.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// A tower and its head under a library's names, to be exported to files.
struct ExportedModel {
  NamedTensors tensors;   ///< for model.safetensors
  bool has_head = false;  ///< `tensors` includes the head; otherwise the library's model has none
};

/// Returns the weights of `network` under the names of `layout`; that library computes the same
/// outputs from them. The network's query, key and value projections must be fused or separate as
/// in the layout, and it must have no adapters.
ExportedModel exported(const ImageClassifier& network, WeightLayout layout);

/// Returns the config.json from which the layout's library recreates that model. `classes` contains
/// the class names by label.
nlohmann::ordered_json exported_config(const ImageClassifierOptions& options, WeightLayout layout,
                                       const std::vector<std::string>& classes);

}  // namespace stages
