#pragma once

#include <filesystem>
#include <string_view>

namespace stages {

/// Writes `text` to `path`. The file appears whole or not at all: it is written beside itself, flushed to the disk and
/// renamed over what was there. Throws runner::StageError (kDiskFull, kCannotWrite) where the disk does not take it.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace stages
