#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/error_code.h"
#include "runner/shared/error/location.h"

namespace runner {

/// A related place, e.g. "first defined here".
struct Note {
  Location where;
  std::string message;
};

enum class Severity { kError, kWarning };

/// One thing wrong with what the user gave, at the place where they gave it.
struct Diagnostic {
  ErrorCode code{};
  Location where;
  std::string pointer;  ///< RFC 6901 pointer into the recipe, e.g. "/train/epochs"; empty when there is none
  std::string message;  ///< what is wrong, one line, no full stop
  std::string help;     ///< what to do instead, one line; empty when there is no good advice
  std::vector<Note> notes = {};
  Severity severity = Severity::kError;
};

/// Every problem found in one pass, in source order. Empty means success.
using Diagnostics = std::vector<Diagnostic>;

/// Sorts by source, line and column; what has no place comes last. Stable.
void sort_by_place(Diagnostics& diagnostics, const Sources& sources);

/// The exit code of the first error; kDone when there is none.
ExitCode exit_code(const Diagnostics& diagnostics);

/// Writes "file:line:column: error[E0123]: message [/json/pointer]", the source line with a caret
/// under the column, then the help and the notes. Control characters of the source are not passed on.
void print(std::ostream& out, const Diagnostic& diagnostic, bool color = false);

/// {"severity", "code", "message", "pointer", "file", "line", "column", "help", "notes": [...]}.
nlohmann::ordered_json to_json(const Diagnostic& diagnostic);

}  // namespace runner
