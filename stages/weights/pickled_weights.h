#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stages/weights/pickle.h"

namespace stages {

/// A named tensor of a state dict, known to be within its storage.
struct PickledWeight {
  std::string name;
  PickledTensor tensor;
  bool is_dense = false;  ///< covers the whole storage, in storage order
  std::int64_t count = 0;
};

/// The weights in a pickle written by torch.save or TorchScript.
struct PickledWeights {
  std::vector<PickledWeight> weights;  ///< sorted by name, unique
  /// The keys of the dictionary with the weights, such as "state_dict", if the checkpoint contains
  /// more than the weights; otherwise empty.
  std::string inside;
  std::vector<std::string> others;  ///< keys of other dictionaries of tensors
};

/// Thrown if the file has several models, or lacks the requested one. The file is not damaged; the
/// user must choose.
struct WeightsChoice : std::invalid_argument {
  WeightsChoice(const std::string& what, std::vector<std::string> keys)
      : std::invalid_argument(what), entries(std::move(keys)) {}
  std::vector<std::string> entries;
};

/// Returns the tensors in the dictionaries and objects of a pickle, named by their keys joined with
/// dots. If a checkpoint stores the model under "state_dict", "model" or a similar key, only that
/// is used; if there are several such keys, timm's order of preference decides, with averages
/// ("state_dict_ema") first. With an `entry` ("teacher", "model.ema"), only tensors below these
/// keys, or with names that begin with them, are used. Throws WeightsChoice if there is no such
/// entry, or if several models are equally likely. Throws std::invalid_argument, with a clause that
/// describes the error, if a tensor extends past the end of its storage, or if all tensors together
/// have more than `most_bytes` bytes.
PickledWeights pickled_weights(const Pickle& pickle, std::int64_t most_bytes,
                               const std::string& entry = "");

}  // namespace stages
