#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stages/weights/pickle.h"

namespace stages {

/// A named tensor of a state dict. It lies within its storage.
struct PickledWeight {
  std::string name;
  PickledTensor tensor;
  bool is_dense = false;  ///< it covers the whole storage, in the storage's order
  std::int64_t count = 0;
};

/// The weights in a pickle written by torch.save or TorchScript.
struct PickledWeights {
  std::vector<PickledWeight> weights;  ///< sorted by name, unique
  /// The keys of the dictionary they came from, if the checkpoint has more: "state_dict"; empty:
  /// none.
  std::string inside;
  std::vector<std::string> others;  ///< keys of other dictionaries of tensors next to it
};

/// The file has several models, or not the requested one: the user must choose; the file is not
/// damaged.
struct WeightsChoice : std::invalid_argument {
  WeightsChoice(const std::string& what, std::vector<std::string> keys)
      : std::invalid_argument(what), entries(std::move(keys)) {}
  std::vector<std::string> entries;
};

/// Finds the tensors in the dictionaries and objects of a pickle, named by their keys joined by
/// dots. If a checkpoint keeps the model in "state_dict", "model" or the like, only that is used;
/// of several such keys the one that timm uses, which prefers averages ("state_dict_ema"). With an
/// `entry` ("teacher", "model.ema"), the tensors below these keys are used, or those with such
/// names. Throws WeightsChoice if there is no such entry, or it is ambiguous which of several is
/// meant. Refuses a tensor that reaches beyond its storage, and more than `most_bytes` for all of
/// them, counted one by one. Throws std::invalid_argument with the fault in half a sentence.
PickledWeights pickled_weights(const Pickle& pickle, std::int64_t most_bytes,
                               const std::string& entry = "");

}  // namespace stages
