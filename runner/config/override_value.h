#pragma once

#include <cstddef>
#include <string>

#include "runner/diagnostic.h"
#include "runner/value.h"

namespace runner {

/// Ends the reading of one override; carries what is wrong with it. Caught by parse_override().
struct OverrideError {
  Diagnostic diagnostic;
};

/// The place of a byte of an override.
Location override_place(const SourceText& source, std::size_t offset);

/// Throws the OverrideError of a mistake at `offset`.
[[noreturn]] void fail_override(const SourceText& source, std::size_t offset, std::string message,
                                std::string help = "", ErrorCode code = ErrorCode::kOverrideSyntax);

/// Reads the value of an override, which starts at `start`: a typed scalar, list or mapping.
/// Throws OverrideError, also for several values and functions, which only a sweep can use.
Value read_override_value(const SourceText& source, std::size_t start);

}  // namespace runner
