#pragma once

#include <cstddef>

#include "runner/config/override_element.h"

namespace runner {

/// Reads the value of an override, which starts at byte `start`. What Hydra takes means what it means there; our
/// extensions are tried on what it refuses: letters outside ASCII, `# ! & ; < > ^` and later `=` in a text without
/// quotes, blanks after a closing quote, quoted keys of mappings, `${a.${b}}`, a comma before `]`, and zip().
/// Throws OverrideError.
Element read_override_value(const SourceText& source, std::size_t start);

}  // namespace runner
