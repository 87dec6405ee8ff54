#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "runner/shared/disk/new_file.h"

namespace runner {

/// Replaces the file at `path`, atomically, with a file of the lines that `keep` accepts, in order,
/// and returns it for further appends. Throws WriteError. `storage` is borrowed.
NewFile rewritten(const std::filesystem::path& path,
                  const std::function<bool(const std::string& line)>& keep, Storage& storage);

}  // namespace runner
