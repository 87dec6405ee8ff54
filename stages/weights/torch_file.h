#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "stages/tensor/named_tensors.h"
#include "stages/weights/safetensors.h"

namespace stages {

/// What torch.save or torch.jit.save has written: the tensors of a state dict, of a checkpoint's
/// model, of a module.
struct TorchFile {
  NamedTensors tensors;  ///< on the CPU, sorted by name; none shares its memory with another
  std::string
      inside;  ///< the keys below which they stood in a checkpoint: "state_dict"; empty: none
  std::vector<std::string> others = {};  ///< keys of other dictionaries of tensors in it
};

/// True for a file that begins as those that torch writes. `start`: its first 512 bytes.
bool is_torch_file(std::string_view start);

/// Reads a file nobody has vouched for, of either form: the zip archive, and the stream that torch
/// wrote before 1.6. Nothing in it is run (pickle.h); every size is checked against the file's
/// before memory is allocated for it; only the tensors of the model are read, or of the `entry`
/// that is asked for (pickled_weights.h). Throws runner::StageError (kMissingWeights,
/// kDamagedWeights; kOptionConflict where the entry is not there, or should be chosen).
TorchFile read_torch_file(const std::filesystem::path& path,
                          WeightContents contents = WeightContents::kNumbers,
                          const std::string& entry = "");
/// The same for tensors that need not be in memory together: each comes as one piece.
void read_torch_file(const std::filesystem::path& path, const WeightSink& sink,
                     const std::string& entry = "");

}  // namespace stages
