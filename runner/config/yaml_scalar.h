#pragma once

#include <optional>
#include <string>

#include "runner/error/diagnostic.h"
#include "runner/value/value.h"

namespace runner {

/// A scalar of a YAML file: `text` as yaml-cpp hands it over, with the tag "?" where it stood without quotes and "!"
/// where it stood in quotes. A tag that is unknown or does not fit is added to `errors`.
Value yaml_scalar(const Location& where, const std::string& tag, const std::string& text, Diagnostics& errors);

/// The warning about a text without quotes that YAML 1.1 reads as something else than most people do: yes, on, 010,
/// 1:30. Nullopt: `read`, which it was read as, surprises nobody.
std::optional<Diagnostic> yaml_trap(const std::string& text, const Value& read);

}  // namespace runner
