#pragma once

#include <string>
#include <string_view>

#include "runner/parent/cli/completion/candidate.h"

namespace runner {

/// What a recipe is and what may be said of it, for people: the comment that its file, `contents`,
/// begins with, the options of every group, and the meaning of its aliases.
std::string recipe_help(std::string_view file, std::string_view contents, const Outline& outline);

}  // namespace runner
