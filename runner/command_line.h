#pragma once

#include <span>
#include <string>
#include <variant>

#include "runner/arguments.h"
#include "runner/result.h"

namespace runner {

/// A text that was asked for instead of work: --help or --version.
struct HelpText {
  std::string text;
};

/// Takes the words after the program's name apart. Flags and overrides may stand in any order.
/// An unknown verb or flag is a diagnostic with the nearest name.
Result<std::variant<Arguments, HelpText>> parse_command_line(std::span<const std::string> words);

/// Is it meant as an override, and not as the name or file of a recipe?
bool is_override(const std::string& word);

}  // namespace runner
