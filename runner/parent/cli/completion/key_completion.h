#pragma once

#include <string_view>

#include "runner/parent/cli/completion/candidate.h"
#include "runner/parent/cli/completion/outline.h"

namespace runner {

/// What `word`, an override that has no '=' yet, may become: a group, an alias or a key of those that its prefix (none,
/// '+', '++' or '~') can name, one level of keys at a time.
Candidates complete_override_key(std::string_view word, const Outline& outline);

/// The same for a dotted key that stands alone, as after --package.
Candidates complete_dotted_key(std::string_view word, const Outline& outline);

}  // namespace runner
