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

namespace stages {

/// Everything that the next step of a training depends on, besides its recipe and its data.
struct TrainingState {
  NamedTensors model;      ///< every parameter and buffer, by its dotted name
  NamedTensors optimizer;  ///< what the optimizer remembers

  std::int64_t step = 0;     ///< optimizer steps done
  std::int64_t epoch = 0;    ///< epochs done
  std::int64_t batch = 0;    ///< batches done of the epoch that is not
  std::uint64_t seed = 0;    ///< of the node; with step and epoch it gives every random number
  std::int64_t metrics = 0;  ///< of the node, in the run's record
  std::int64_t threads = 0;  ///< of the CPU: they are part of the bits
  std::string recipe_hash;   ///< SHA-256 of the resolved recipe
  std::optional<double>
      metric;  ///< what says which checkpoint is best, where it was measured at this step
  std::map<std::string, std::string>
      about;  ///< the model, in words: kept in its weights' file alone

  /// What the parts of a training remember, each in its own form, an object or null.
  nlohmann::json scaler, schedule, random, stopping, plan, epoch_so_far;
};

/// All of it but the tensors, as state.json holds it. Numbers keep their bits. Throws
/// std::invalid_argument for a number that is not finite, which JSON has no word for.
std::string state_json(const TrainingState& state);

/// Reads what state_json() wrote; the tensors are left empty. Throws std::runtime_error saying what
/// is wrong, in half a sentence: "its state.json …".
TrainingState state_from_json(std::string_view text);

/// A checkpoint is a folder:
///
///   model.safetensors        the weights
///   optimizer.safetensors    what the optimizer remembers
///   state.json               where the training stands
///   manifest.json            {"schema": 1, "files": {name: {"size", "sha256"}}} of the others,
///   written last
///
/// Everything below throws runner::StageError: kDamagedWeights where a file is missing, is not what
/// the manifest says it is or cannot be understood; a WriteError where the disk does not take it.

/// Writes the files into `folder`, which exists and is empty. Whoever gives it its name flushes it
/// (NewFolder).
void write_checkpoint(const std::filesystem::path& folder, const TrainingState& state,
                      runner::Storage& storage);

/// How much of a checkpoint comes into memory.
enum class CheckpointPart {
  kAll,
  kWeights,  ///< all but what the optimizer remembers: TrainingState::optimizer is empty
};

/// Reads a checkpoint whose every byte has been compared with its manifest.
TrainingState read_checkpoint(const std::filesystem::path& folder,
                              CheckpointPart part = CheckpointPart::kAll);

/// The same without the tensors, of which only the sizes are compared.
TrainingState read_checkpoint_state(const std::filesystem::path& folder);

/// At least as many bytes as the files of a checkpoint will take.
std::int64_t checkpoint_bytes(const TrainingState& state);

}  // namespace stages
