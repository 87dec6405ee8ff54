#pragma once

#include <string_view>

#include "runner/parent/cli/completion/candidate.h"
#include "runner/parent/cli/completion/outline.h"
#include "runner/shared/disk/file_system.h"

namespace runner {

/// What `word`, an override that has its '=', may become: the options of a group, what a schema or an alias lists, the
/// files and folders of a path. Of a list of values, a,b or [a,b], the last one is completed.
Candidates complete_override_value(std::string_view word, const Outline& outline, const FileSystem& files);

}  // namespace runner
