#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stages/weights/pickle.h"

namespace stages {

/// A tensor of a state dict by its name. It lies inside its storage.
struct PickledWeight {
  std::string name;
  PickledTensor tensor;
  bool is_dense = false;  ///< it has the whole storage, in the storage's order
  std::int64_t count = 0;
};

/// The weights of a pickle that torch.save or TorchScript made.
struct PickledWeights {
  std::vector<PickledWeight> weights;  ///< sorted by name; they differ
  /// The keys below which they stood where a checkpoint holds more than them: "state_dict"; empty:
  /// none.
  std::string inside;
  std::vector<std::string> others;  ///< keys of other dictionaries of tensors beside it
};

/// The file holds several models, or not the one that is asked for: what is to be chosen, not what
/// is damaged.
struct WeightsChoice : std::invalid_argument {
  WeightsChoice(const std::string& what, std::vector<std::string> keys)
      : std::invalid_argument(what), entries(std::move(keys)) {}
  std::vector<std::string> entries;
};

/// Finds the tensors in the dictionaries and objects of a pickle, named by their keys and joined by
/// dots. Of a checkpoint that keeps the model in "state_dict", "model" or the like no others are
/// taken; of several the one that timm takes, which prefers averages ("state_dict_ema"). With an
/// `entry` ("teacher", "model.ema") those below these keys are taken, or those with such names.
/// Throws WeightsChoice where there is no such entry, or nothing tells which of several is meant. A
/// tensor that reaches beyond its storage is refused, and so are more than `most_bytes` for all of
/// them, one by one. Throws std::invalid_argument saying what is wrong, in half a sentence.
PickledWeights pickled_weights(const Pickle& pickle, std::int64_t most_bytes,
                               const std::string& entry = "");

}  // namespace stages
