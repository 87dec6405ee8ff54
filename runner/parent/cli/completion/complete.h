#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/parent/cli/completion/candidate.h"

namespace runner {

/// Completes the last of `words`, the words after the program's name, to verbs, flags, recipes or
/// overrides that fit the preceding words. Reads recipes and lists folders; a broken recipe yields
/// no candidates. There must be at least one word, which may be empty.
Candidates complete(std::span<const std::string> words);

/// Completes `word`, an override that has no '=' yet, to a group, an alias or a key that its prefix
/// (none, '+', '++' or '~') allows, one level of keys at a time.
Candidates complete_override_key(std::string_view word, const Outline& outline);

/// Completes `word`, a dotted key without a value, as after --package, one level of keys at a time.
Candidates complete_dotted_key(std::string_view word, const Outline& outline);

}  // namespace runner
