#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/storage.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/safetensors.h"

namespace stages {

/// Everything that the next step of a training depends on, other than its recipe and its data.
struct TrainingState {
  NamedTensors model;      ///< every parameter and buffer, by its dotted name
  NamedTensors optimizer;  ///< the optimizer's state

  std::int64_t step = 0;     ///< optimizer steps done
  std::int64_t epoch = 0;    ///< epochs done
  std::int64_t batch = 0;    ///< batches done in the current epoch
  std::uint64_t seed = 0;    ///< of the node; with step and epoch it determines every random number
  std::int64_t metrics = 0;  ///< of the node, in the run's record
  std::int64_t threads = 0;  ///< CPU threads: they affect the bits of the result
  std::string recipe_hash;   ///< SHA-256 of the resolved recipe
  std::optional<double> metric;  ///< the metric that ranks checkpoints, if measured at this step
  std::map<std::string, std::string>
      about;  ///< the model's metadata as text: stored only in the weights file

  /// State of the parts of a training, each in its own form: an object or null.
  nlohmann::json scaler, schedule, random, stopping, plan, epoch_so_far;
};

/// Everything except the tensors, as state.json holds it. Numbers keep their bits. Throws
/// std::invalid_argument for a number that is not finite, which JSON cannot represent.
std::string state_json(const TrainingState& state);

/// Reads what state_json() wrote; the tensors stay empty. Throws std::runtime_error with the fault
/// in half a sentence: "its state.json …".
TrainingState state_from_json(std::string_view text);

/// A checkpoint is a folder:
///
///   model.safetensors        the weights
///   optimizer.safetensors    the optimizer's state
///   state.json               how far the training is
///   manifest.json            {"schema": 1, "files": {name: {"size", "sha256"}}} of the others,
///                            written last
///
/// Everything below throws runner::StageError: kDamagedWeights if a file is missing, differs from
/// the manifest or cannot be parsed; a WriteError if the disk refuses a write.

/// Writes the files into `folder`, which exists and is empty. The caller that renames the folder
/// flushes it (NewFolder). `bring` brings the optimizer's state, as in put_safetensors().
void write_checkpoint(const std::filesystem::path& folder, const TrainingState& state,
                      runner::Storage& storage, const BringTensor& bring = bring_here);

/// How much of a checkpoint is loaded into memory.
enum class CheckpointPart {
  kAll,
  kWeights,  ///< all but the optimizer's state: TrainingState::optimizer is empty
};

/// Reads a checkpoint after checking every byte against its manifest.
TrainingState read_checkpoint(const std::filesystem::path& folder,
                              CheckpointPart part = CheckpointPart::kAll);
/// The same, with `contents_of` each tensor of the optimizer's state; null: without that state.
TrainingState read_checkpoint(const std::filesystem::path& folder, const ContentsOf& contents_of);

/// The same without the tensors; of their files only the sizes are checked.
TrainingState read_checkpoint_state(const std::filesystem::path& folder);

/// An upper bound of the bytes that the files of a checkpoint take.
std::int64_t checkpoint_bytes(const TrainingState& state);

}  // namespace stages
