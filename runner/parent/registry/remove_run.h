#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// A run's folder that may be removed: it has a Retort record, and no other process works on it
/// during the object's lifetime.
struct RemovableRun {
  std::filesystem::path folder;  ///< as named
  std::uintmax_t bytes = 0;      ///< of the files that would be removed
  RunLock lock;
};

/// kUsage for a name with "..", kNoRun if it is a link or has no record of a run, kRunBusy if a
/// process works on it.
Result<RemovableRun> removable_run(const std::filesystem::path& folder,
                                   Lease::Options options = {});

/// Removes what Retort writes into a run's folder. The run's mark goes last, so that what a kill
/// leaves can be removed again; then the folder goes if it is empty. Links are removed, not
/// followed. Returns the names in the folder that are not Retort's; they stay, and so does the
/// folder. kCannotWrite if something cannot be removed.
Result<std::vector<std::string>> remove_run(const RemovableRun& run, Storage& storage = disk());

}  // namespace runner
