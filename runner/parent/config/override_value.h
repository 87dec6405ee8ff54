#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// One element of an override's value: a value, a sweep, or an edit.
struct Element {
  std::variant<Value, Sweep, Edit> data;
  Location where = {};

  Value* value() { return std::get_if<Value>(&data); }
  const Value* value() const { return std::get_if<Value>(&data); }
  Sweep* sweep() { return std::get_if<Sweep>(&data); }
  const Sweep* sweep() const { return std::get_if<Sweep>(&data); }
};

/// name(argument,argument,name=argument), parsed but not evaluated.
struct FunctionCall {
  std::string name;
  Location where = {};
  std::vector<Element> arguments = {};
  std::vector<std::pair<std::string, Element>> named = {};
};

/// Parses the value of an override, which starts at byte `start`. Anything that Hydra accepts means
/// the same as in Hydra. Our extensions are tried only on what Hydra rejects: letters outside
/// ASCII, `# ! & ; < > ^` and additional `=` in unquoted text, spaces after a closing quote, quoted
/// keys of mappings, `${a.${b}}`, a comma before `]`, and zip(). Throws OverrideError.
Element read_override_value(const SourceText& source, std::size_t start);

/// Thrown to abort parsing an override; carries the error. Caught by parse_override().
struct OverrideError {
  Diagnostic diagnostic;
};

/// Throws an OverrideError at `where`.
[[noreturn]] void fail_override(Location where, std::string message, std::string help = "",
                                ErrorCode code = ErrorCode::kOverrideSyntax);

/// Converts byte offsets in an override to locations. Increasing offsets are cheap, no matter how
/// long the override is.
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
