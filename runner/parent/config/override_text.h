#pragma once

#include <string>

#include "runner/parent/config/override.h"

namespace runner {

/// `value` as it may stand in an override, laid out as Hydra does: no blanks, True and False, 1e-05, special characters
/// after backslashes, quotes where it was read with quotes. Reads back as the same value: a text that would not
/// is put in quotes. A secret is shown as it is recorded.
std::string element_text(const Value& value);

/// "+a.b@c=value", "~a" or, of a sweep or an edit, as it was typed.
std::string override_text(const Override& override);

}  // namespace runner
