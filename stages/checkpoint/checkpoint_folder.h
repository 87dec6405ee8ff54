#pragma once

#include <cstdint>
#include <filesystem>

#include "runner/disk/storage.h"
#include "stages/checkpoint/training_state.h"

namespace stages {

/// A checkpoint is a folder:
///
///   model.safetensors        the weights
///   optimizer.safetensors    what the optimizer remembers
///   state.json               where the training stands (training_state.h)
///   manifest.json            {"schema": 1, "files": {name: {"size", "sha256"}}} of the others, written last
///
/// Everything below throws runner::StageError: kDamagedWeights where a file is missing, is not what the manifest
/// says it is or cannot be understood; a WriteError where the disk does not take it.

/// Writes the files into `folder`, which exists and is empty. Whoever gives it its name flushes it (NewFolder).
void write_checkpoint(const std::filesystem::path& folder, const TrainingState& state, runner::Storage& storage);

/// How much of a checkpoint comes into memory.
enum class CheckpointPart {
  kAll,
  kWeights,  ///< all but what the optimizer remembers: TrainingState::optimizer is empty
};

/// Reads a checkpoint whose every byte has been compared with its manifest.
TrainingState read_checkpoint(const std::filesystem::path& folder, CheckpointPart part = CheckpointPart::kAll);

/// The same without the tensors, of which only the sizes are compared.
TrainingState read_checkpoint_state(const std::filesystem::path& folder);

/// At least as many bytes as the files of a checkpoint will take.
std::int64_t checkpoint_bytes(const TrainingState& state);

}  // namespace stages
