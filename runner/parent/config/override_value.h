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

/// What one place of an override's value holds: a value, several of which a run takes one, or a
/// change.
struct Element {
  std::variant<Value, Sweep, Edit> data;
  Location where = {};

  Value* value() { return std::get_if<Value>(&data); }
  const Value* value() const { return std::get_if<Value>(&data); }
  Sweep* sweep() { return std::get_if<Sweep>(&data); }
  const Sweep* sweep() const { return std::get_if<Sweep>(&data); }
};

/// name(argument,argument,name=argument), read but not evaluated.
struct FunctionCall {
  std::string name;
  Location where = {};
  std::vector<Element> arguments = {};
  std::vector<std::pair<std::string, Element>> named = {};
};

/// Reads the value of an override, which starts at byte `start`. What Hydra takes means what it
/// means there; our extensions are tried on what it refuses: letters outside ASCII, `# ! & ; < > ^`
/// and later `=` in a text without quotes, blanks after a closing quote, quoted keys of mappings,
/// `${a.${b}}`, a comma before `]`, and zip(). Throws OverrideError.
Element read_override_value(const SourceText& source, std::size_t start);

/// Ends the reading of one override; carries what is wrong with it. Caught by parse_override().
struct OverrideError {
  Diagnostic diagnostic;
};

/// Throws the OverrideError of a mistake at `where`.
[[noreturn]] void fail_override(Location where, std::string message, std::string help = "",
                                ErrorCode code = ErrorCode::kOverrideSyntax);

/// Turns byte offsets of an override into places. Offsets that grow are cheap, whatever the length
/// of the override.
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
