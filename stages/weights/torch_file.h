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
  NamedTensors tensors;  ///< on the CPU, sorted by name; none shares its memory with another
  std::string inside;    ///< the checkpoint's keys above them: "state_dict"; empty: none
  std::vector<std::string> others = {};  ///< keys of other dictionaries of tensors in it
};

/// True if a file begins as those that torch writes. `start`: its first 512 bytes.
bool is_torch_file(std::string_view start);

/// Reads an untrusted file in either format: the zip archive, or the stream that torch wrote before
/// 1.6. No code in it is run (pickle.h); every size is checked against the file's before memory is
/// allocated for it; only the tensors of the model are read, or of the requested `entry`
/// (pickled_weights.h). Throws runner::StageError (kMissingWeights, kDamagedWeights;
/// kOptionConflict if the entry is missing, or must be chosen).
TorchFile read_torch_file(const std::filesystem::path& path,
                          WeightContents contents = WeightContents::kNumbers,
                          const std::string& entry = "");
/// The same for tensors that are too large to hold in memory together: each comes as one piece.
void read_torch_file(const std::filesystem::path& path, const WeightSink& sink,
                     const std::string& entry = "");

}  // namespace stages
