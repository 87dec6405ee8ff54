#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// The files in a checkpoint's folder. The manifest, {"schema": 1, "files": {name: {"size",
/// "sha256"}}}, lists the other files with their digests and is written last.
inline constexpr const char* kCheckpointModel = "model.safetensors";
inline constexpr const char* kCheckpointOptimizer = "optimizer.safetensors";
inline constexpr const char* kCheckpointState = "state.json";
inline constexpr const char* kCheckpointManifest = "manifest.json";
inline constexpr int kCheckpointSchema = 1;

/// Which files are checked against the manifest by content. The rest are checked only by size.
enum class CheckedFiles { kState, kAll };

/// Throws StageError (kDamagedWeights) if a file in the checkpoint at `folder` is missing or does
/// not match the manifest.
void check_checkpoint(const std::filesystem::path& folder, CheckedFiles files = CheckedFiles::kAll);

/// Throws the error for a damaged checkpoint; `why` is the reason.
[[noreturn]] void damaged_checkpoint(const std::filesystem::path& folder, const std::string& why);

/// Describes the damage found in the checkpoints in `folder`, one line each. The `latest` file must
/// point to an intact checkpoint, and so must `best` if it exists.
std::vector<std::string> damaged_checkpoints(const std::filesystem::path& folder);

/// The name of a checkpoint's folder: "step-00001234", or "step-00001234-1" if that step was saved
/// before, for example after a resume. Names are ordered by age: later checkpoints compare greater.
struct CheckpointName {
  std::int64_t step = 0;
  std::int64_t again = 0;
  auto operator<=>(const CheckpointName&) const = default;
};

std::string to_text(const CheckpointName& name);
/// Parses a name as written by to_text(); nullopt if `text` is not one.
std::optional<CheckpointName> checkpoint_name_from(std::string_view text);

/// Returns the checkpoints in `folder`, complete or not, newest first.
std::vector<CheckpointName> list_checkpoints(const std::filesystem::path& folder);

/// Files next to the checkpoints, each containing the name of one checkpoint on a single line.
inline constexpr const char* kLatestCheckpoint = "latest";
inline constexpr const char* kBestCheckpoint = "best";

/// Returns the checkpoint named in the file `pointer`; nullopt if the file is missing or was not
/// written by Retort.
std::optional<CheckpointName> pointed_to(const std::filesystem::path& pointer);
/// Returns the message for a file `pointer` that does not refer to a checkpoint.
std::string no_checkpoint_named(const std::filesystem::path& pointer);

}  // namespace runner
