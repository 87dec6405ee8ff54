#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "runner/shared/disk/storage.h"
#include "runner/shared/error/result.h"

namespace runner {

/// Where a run or a sweep is to go.
struct FolderWish {
  std::string given;            ///< its folder; empty: `below`/<date>/<time> (local time; -1, -2 … when taken)
  std::filesystem::path base;   ///< relative paths stand here
  std::filesystem::path below;  ///< "outputs"
  std::string option;           ///< that `given` comes from, "run.dir"
  std::filesystem::path mark;   ///< the folder in it whose making claims it, ".retort"
  std::string what;             ///< "a run"
};

/// Makes that folder, which must be absent or empty, and claims it, so that no two ever share one. kRunFolderTaken,
/// kCannotCreate or kDiskFull at the option when that does not work.
Result<std::filesystem::path> create_dated_folder(const FolderWish& wish, std::chrono::system_clock::time_point now,
                                                  Storage& storage = disk());

}  // namespace runner
