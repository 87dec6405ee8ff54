#pragma once

#include <cstdint>
#include <string>
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
  /// The keys below which they stood where a checkpoint holds more than them: "state_dict"; empty: none.
  std::string inside;
};

/// Finds the tensors in the dictionaries and objects of a pickle, named by their keys and joined by dots. Of a
/// checkpoint that keeps the model in "state_dict", "model_state_dict" or "model" no others are taken. A tensor that
/// reaches beyond its storage is refused, and so are more than `most_bytes` for all of them, one by one. Throws
/// std::invalid_argument saying what is wrong, in half a sentence.
PickledWeights pickled_weights(const Pickle& pickle, std::int64_t most_bytes);

}  // namespace stages
