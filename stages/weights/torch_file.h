#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "stages/tensor/named_tensors.h"
#include "stages/weights/safetensors.h"

namespace stages {

/// The contents of a torch.save or torch.jit.save file: the tensors of a state dict, of a
/// checkpoint's model, or of a module.
struct TorchFile {
  NamedTensors tensors;  ///< on the CPU, sorted by name; no two share memory
  /// The keys in the checkpoint that lead to the tensors, such as "state_dict"; empty: none.
  std::string inside;
  std::vector<std::string> others = {};  ///< keys of other dictionaries of tensors in the file
};

/// True if a file may have been written by torch. `start` is its first 512 bytes.
bool is_torch_file(std::string_view start);

/// Reads a file in either format: the zip archive, or the stream that torch wrote before 1.6. The
/// file is not trusted: no code in it is run (pickle.h), and sizes are checked against the file's
/// size before memory is allocated. Only the tensors of the model, or of the requested `entry`, are
/// read (pickled_weights.h). Throws runner::StageError (kMissingWeights, kDamagedWeights;
/// kOptionConflict if the entry is missing, or must be chosen).
TorchFile read_torch_file(const std::filesystem::path& path,
                          WeightContents contents = WeightContents::kNumbers,
                          const std::string& entry = "");
/// Passes the tensors to `sink`, each as one piece, in case they do not all fit in memory at once.
void read_torch_file(const std::filesystem::path& path, const WeightSink& sink,
                     const std::string& entry = "");

}  // namespace stages
