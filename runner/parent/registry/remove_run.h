#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// A run's folder that may be removed: it has our record, and nobody else is at work on it as long
/// as this lives.
struct RemovableRun {
  std::filesystem::path folder;  ///< as named
  std::uintmax_t bytes = 0;      ///< of the files that would go
  RunLock lock;
};

/// kUsage for a name with "..", kNoRun where it is a link or has no record of a run, kRunBusy where
/// a process is at work on it.
Result<RemovableRun> removable_run(const std::filesystem::path& folder,
                                   Lease::Options options = {});

/// Removes what Retort writes into a run's folder, the mark of the run last, so that what a kill
/// leaves can be removed again; then the folder where nothing else is in it. No link is followed:
/// links are removed themselves. The names in the folder that are not ours, and stay there with it.
/// kCannotWrite where something cannot be removed.
Result<std::vector<std::string>> remove_run(const RemovableRun& run, Storage& storage = disk());

}  // namespace runner
