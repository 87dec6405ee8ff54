#pragma once

#include <filesystem>

namespace runner {

/// Where this user's caches are: $RETORT_CACHE, else retort/ in $XDG_CACHE_HOME, else .cache/retort in $HOME; empty
/// where none of them is set to a whole path.
std::filesystem::path cache_folder();

}  // namespace runner
