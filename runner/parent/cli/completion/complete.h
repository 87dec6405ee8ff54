#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/parent/cli/completion/candidate.h"

namespace runner {

/// What the last of `words`, those after the program's name, may become: verbs, flags, recipes, and
/// overrides that follow the words before. Reads recipes and lists folders; broken ones complete to
/// nothing. At least one word, perhaps empty.
Candidates complete(std::span<const std::string> words);

/// What `word`, an override that has no '=' yet, may become: a group, an alias or a key of those
/// that its prefix (none,
/// '+', '++' or '~') can name, one level of keys at a time.
Candidates complete_override_key(std::string_view word, const Outline& outline);

/// The same for a dotted key that stands alone, as after --package.
Candidates complete_dotted_key(std::string_view word, const Outline& outline);

}  // namespace runner
