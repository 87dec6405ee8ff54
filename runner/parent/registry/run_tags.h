#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "runner/shared/error/result.h"

namespace runner {

/// The tags of the run in `folder`, sorted: tags.json, {"schema": 1, "tags": ["best"]}. kDamagedRecord where that
/// cannot be read; none where it is not there.
Result<std::vector<std::string>> read_tags(const std::filesystem::path& folder);

/// Adds tags to those of a run, and removes others; what the run has now. kUsage for a tag that is no name, such as
/// "../x"; kRunBusy where another process is at the same. Throws WriteError. No other file of the run is touched, so
/// that it may be running.
Result<std::vector<std::string>> change_tags(const std::filesystem::path& folder, std::span<const std::string> added,
                                             std::span<const std::string> removed, Storage& storage = disk());

}  // namespace runner
