#pragma once

#include <filesystem>

#include "runner/shared/disk/storage.h"

namespace runner {

/// Makes `folder` and those above it that are missing. Each one's name survives a power cut from here on. Throws
/// std::filesystem::filesystem_error where one cannot be made, WriteError where one cannot be flushed.
void make_folders(const std::filesystem::path& folder, Storage& storage = disk());

}  // namespace runner
