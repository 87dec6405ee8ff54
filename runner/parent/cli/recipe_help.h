#pragma once

#include <string>
#include <string_view>

#include "runner/parent/cli/completion/candidate.h"

namespace runner {

/// Returns the help for a recipe: the comment at the start of `contents`, the text of its file; the
/// options of every group; and the meaning of its aliases.
std::string recipe_help(std::string_view file, std::string_view contents, const Outline& outline);

}  // namespace runner
