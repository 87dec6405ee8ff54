#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// The files in a checkpoint's folder. The manifest, {"schema": 1, "files": {name: {"size",
/// "sha256"}}}, says what the others hold, and is written last.
inline constexpr const char* kCheckpointModel = "model.safetensors";
inline constexpr const char* kCheckpointOptimizer = "optimizer.safetensors";
inline constexpr const char* kCheckpointState = "state.json";
inline constexpr const char* kCheckpointManifest = "manifest.json";
inline constexpr int kCheckpointSchema = 1;

/// Of which files the bytes are compared with the manifest; of the others only the sizes are.
enum class CheckedFiles { kState, kAll };

/// Throws StageError, kDamagedWeights, where a file of the checkpoint in `folder` is missing or is
/// not what the manifest says it is.
void check_checkpoint(const std::filesystem::path& folder, CheckedFiles files = CheckedFiles::kAll);

/// What check_checkpoint() throws.
[[noreturn]] void damaged_checkpoint(const std::filesystem::path& folder, const std::string& why);

/// What is damaged of a training's checkpoints in `folder`, a line each: `latest` must name a whole
/// one, and so must `best` where it is there.
std::vector<std::string> damaged_checkpoints(const std::filesystem::path& folder);

/// The name of a checkpoint's folder: "step-00001234", or "step-00001234-1" where that step has
/// been saved before, as after a resume. Ordered by age: the later of two is the larger.
struct CheckpointName {
  std::int64_t step = 0;
  std::int64_t again = 0;
  auto operator<=>(const CheckpointName&) const = default;
};

std::string to_text(const CheckpointName& name);
/// nullopt where `text` is not what to_text() makes.
std::optional<CheckpointName> checkpoint_name_from(std::string_view text);

/// The checkpoints in `folder`, whole or not, newest first.
std::vector<CheckpointName> list_checkpoints(const std::filesystem::path& folder);

/// The files beside them that name one, in a line.
inline constexpr const char* kLatestCheckpoint = "latest";
inline constexpr const char* kBestCheckpoint = "best";

/// What the file `pointer` names; nullopt if it is missing or was not written by Retort.
std::optional<CheckpointName> pointed_to(const std::filesystem::path& pointer);
/// Says so.
std::string no_checkpoint_named(const std::filesystem::path& pointer);

}  // namespace runner
