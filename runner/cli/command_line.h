#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runner/cli/arguments.h"
#include "runner/error/result.h"

namespace runner {

/// A text that was asked for instead of work: --help or --version.
struct HelpText {
  std::string text;
  Arguments about = {};  ///< of a verb's --help: what stands beside it; it may name a recipe
};

/// Takes the words after the program's name apart. Flags and overrides may stand in any order.
/// An unknown verb or flag is a diagnostic with the nearest name.
Result<std::variant<Arguments, HelpText>> parse_command_line(std::span<const std::string> words);

/// Is it meant as an override, and not as the name or file of a recipe?
bool is_override(const std::string& word);

/// A flag, or a word at a certain place, of a verb.
struct Parameter {
  std::string name;  ///< "--format", "recipe"
  std::string summary;
  std::string type;                       ///< what its value is, in help: "DIR"; may be empty
  std::vector<std::string> choices = {};  ///< the values it takes; empty: any
};

/// A command line whose end is still to be typed.
struct UnfinishedLine {
  Arguments arguments;            ///< what is there, as far as it can be understood
  std::vector<Parameter> flags;   ///< of its verb
  std::optional<Parameter> next;  ///< what the next word is, unless it is a flag; nullopt: nothing more is expected
  bool is_flag_value = false;     ///< the word before is the flag `next`, so that a flag cannot follow
};

/// Takes apart the words between the program's name and the one that is being typed: at least a verb. Never fails.
UnfinishedLine parse_unfinished(std::span<const std::string> words);

}  // namespace runner
