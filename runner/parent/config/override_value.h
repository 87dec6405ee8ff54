#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runner/parent/config/edit.h"
#include "runner/parent/config/override.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What one place of an override's value holds: a value, several of which a run takes one, or a change.
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

/// Reads the value of an override, which starts at byte `start`. What Hydra takes means what it means there; our
/// extensions are tried on what it refuses: letters outside ASCII, `# ! & ; < > ^` and later `=` in a text without
/// quotes, blanks after a closing quote, quoted keys of mappings, `${a.${b}}`, a comma before `]`, and zip().
/// Throws OverrideError.
Element read_override_value(const SourceText& source, std::size_t start);

}  // namespace runner
