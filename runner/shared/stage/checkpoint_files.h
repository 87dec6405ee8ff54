#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace runner {

/// The files in a checkpoint's folder. The manifest, {"schema": 1, "files": {name: {"size", "sha256"}}}, says what the
/// others hold, and is written last.
inline constexpr const char* kCheckpointModel = "model.safetensors";
inline constexpr const char* kCheckpointOptimizer = "optimizer.safetensors";
inline constexpr const char* kCheckpointState = "state.json";
inline constexpr const char* kCheckpointManifest = "manifest.json";
inline constexpr int kCheckpointSchema = 1;

/// Of which files the bytes are compared with the manifest; of the others only the sizes are.
enum class CheckedFiles { kState, kAll };

/// Throws StageError, kDamagedWeights, where a file of the checkpoint in `folder` is missing or is not what the
/// manifest says it is.
void check_checkpoint(const std::filesystem::path& folder, CheckedFiles files = CheckedFiles::kAll);

/// What check_checkpoint() throws.
[[noreturn]] void damaged_checkpoint(const std::filesystem::path& folder, const std::string& why);

/// What is damaged of a training's checkpoints in `folder`, a line each: `latest` must name a whole one, and so must
/// `best` where it is there.
std::vector<std::string> damaged_checkpoints(const std::filesystem::path& folder);

}  // namespace runner
