#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// A run's folder that may be removed: it contains the record of a run, and no other process is
/// working on it during the object's lifetime.
struct RemovableRun {
  std::filesystem::path folder;  ///< as the user named it
  std::uintmax_t bytes = 0;      ///< total size of the files that would be removed
  RunLock lock;
};

/// Locks the run in `folder` for removal. Fails with kUsage for a path with "..", kNoRun for a link
/// or a folder without the record of a run, and kRunBusy if another process is working on it.
Result<RemovableRun> removable_run(const std::filesystem::path& folder,
                                   Lease::Options options = {});

/// Removes everything that Retort writes into a run's folder. The mark of the run is removed last,
/// so an interrupted removal can be repeated; after that, the folder is removed if it is empty.
/// Links are removed, not followed. Returns the names of other files in the folder, which stay
/// there. Fails with kCannotWrite if something cannot be removed.
Result<std::vector<std::string>> remove_run(const RemovableRun& run, Storage& storage = disk());

}  // namespace runner
