#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// The name of a checkpoint's folder: "step-00001234", or "step-00001234-1" where that step has been saved before, as
/// after a resume. Ordered by age: the later of two is the larger.
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
