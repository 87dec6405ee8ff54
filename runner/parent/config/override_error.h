#pragma once

#include <cstddef>
#include <string>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Ends the reading of one override; carries what is wrong with it. Caught by parse_override().
struct OverrideError {
  Diagnostic diagnostic;
};

/// Throws the OverrideError of a mistake at `where`.
[[noreturn]] void fail_override(Location where, std::string message, std::string help = "",
                                ErrorCode code = ErrorCode::kOverrideSyntax);

/// Turns byte offsets of an override into places. Offsets that grow are cheap, whatever the length of the override.
class OverridePlaces {
 public:
  explicit OverridePlaces(const SourceText& source) : source_(source) {}
  Location at(std::size_t offset);

 private:
  const SourceText& source_;
  std::size_t offset_ = 0, line_start_ = 0;
  int line_ = 1;
};

}  // namespace runner
