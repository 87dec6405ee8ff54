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

/// Everything that the next step of a training run depends on, except the recipe and the data.
struct TrainingState {
  NamedTensors model;      ///< every parameter and buffer, by its dotted name
  NamedTensors optimizer;  ///< the optimizer's state

  std::int64_t step = 0;   ///< number of completed optimizer steps
  std::int64_t epoch = 0;  ///< number of completed epochs
  std::int64_t batch = 0;  ///< number of completed batches in the current epoch
  /// The node's seed; together with step and epoch, it determines every random number.
  std::uint64_t seed = 0;
  std::int64_t metrics = 0;  ///< number of the node's metrics in the run's record
  std::int64_t threads = 0;  ///< number of CPU threads, which affects the bits of the result
  std::string recipe_hash;   ///< SHA-256 of the resolved recipe
  /// The metric by which checkpoints are ranked, if measured at this step.
  std::optional<double> metric;
  /// The model's metadata, stored only in the weights file.
  std::map<std::string, std::string> about;

  /// The state of other components of the training run; each is an object in its own format, or
  /// null.
  nlohmann::json scaler, schedule, random, stopping, plan, epoch_so_far;
};

/// Returns the text of state.json: everything except the tensors and `about`. Numbers round-trip
/// bit for bit. Throws std::invalid_argument for a non-finite number, which JSON cannot represent.
std::string state_json(const TrainingState& state);

/// Parses the output of state_json(); the tensors stay empty. Throws std::runtime_error with a
/// clause that describes the error: "its state.json …".
TrainingState state_from_json(std::string_view text);

/// A checkpoint is a folder:
///
///   model.safetensors        the weights
///   optimizer.safetensors    the optimizer's state
///   state.json               the training progress
///   manifest.json            {"schema": 1, "files": {name: {"size", "sha256"}}} for the other
///                            files, written last
///
/// All functions below throw runner::StageError (kDamagedWeights) if a file is missing, differs
/// from the manifest or cannot be parsed, and WriteError if a write fails.

/// Writes the files into `folder`, which must exist and be empty. The caller flushes the folder to
/// disk when renaming it (NewFolder). `bring` returns the tensors of the optimizer's state, as in
/// put_safetensors().
void write_checkpoint(const std::filesystem::path& folder, const TrainingState& state,
                      runner::Storage& storage, const BringTensor& bring = bring_here);

/// How much of a checkpoint is loaded into memory.
enum class CheckpointPart {
  kAll,
  kWeights,  ///< everything but the optimizer's state; TrainingState::optimizer is empty
  kShapes,   ///< like kWeights, but the weights are on the Meta device
};

/// Reads a checkpoint after checking every byte against its manifest.
TrainingState read_checkpoint(const std::filesystem::path& folder,
                              CheckpointPart part = CheckpointPart::kAll);
/// Reads a checkpoint after checking every byte against its manifest. `contents_of` decides for
/// each tensor whether its values are read.
TrainingState read_checkpoint(const std::filesystem::path& folder, const ContentsOf& contents_of,
                              bool with_optimizer = true);

/// Reads a checkpoint without its tensors; only the sizes of their files are checked.
TrainingState read_checkpoint_state(const std::filesystem::path& folder);

/// Returns an upper bound on the total size of a checkpoint's files, in bytes.
std::int64_t checkpoint_bytes(const TrainingState& state);

}  // namespace stages
