#pragma once

#include <span>
#include <string>

#include "runner/parent/cli/completion/candidate.h"

namespace runner {

/// What the last of `words`, those after the program's name, may become: verbs, flags, recipes, and overrides that
/// follow the words before. Reads recipes and lists folders; broken ones complete to nothing. At least one word,
/// perhaps empty.
Candidates complete(std::span<const std::string> words);

}  // namespace runner
