#pragma once

#include <string_view>

#include "runner/parent/cli/completion/candidate.h"
#include "runner/shared/disk/file_system.h"

namespace runner {

/// The files whose path begins with `typed` and ends in `ending`, and folders, which end in '/'. Hidden ones are left
/// out unless their dot was typed.
Candidates complete_path(const FileSystem& files, std::string_view typed, std::string_view ending);

/// Folders only.
Candidates complete_folder(const FileSystem& files, std::string_view typed);

}  // namespace runner
