#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// How a verb is to speak: flags that every verb has.
struct OutputFlags {
  bool json = false;
  bool verbose = false;
  bool quiet = false;
};

/// A command line taken apart: what is to be run, and how it is to speak.
struct ParsedLine {
  std::string verb;
  Invocation invocation;
  OutputFlags output;
};

/// A text that was asked for instead of work: --help or --version.
struct HelpText {
  std::string text;
  NamedRecipe about =
      {};  ///< of a verb's --help: the recipe that stands beside it; its name may be empty
};

/// Takes the words after the program's name apart. Flags and overrides may stand in any order.
/// An unknown verb or flag is a diagnostic with the nearest name.
Result<std::variant<ParsedLine, HelpText>> parse_command_line(std::span<const std::string> words);

/// Is it meant as an override, and not as the name or file of a recipe?
bool is_override(const std::string& word);

/// A flag, or a word at a certain place, that may be typed next.
struct ExpectedWord {
  std::string name;  ///< "--format", "recipe"
  std::string summary;
  std::string type;                       ///< what its value is, in help: "DIR"; may be empty
  std::vector<std::string> choices = {};  ///< the values it takes; empty: any
};

/// A command line whose end is still to be typed.
struct UnfinishedLine {
  std::string verb;
  std::string action = {};  ///< of a verb that does several things: which, where it has been typed
  NamedRecipe recipe = {};  ///< what has been typed of it
  std::vector<ExpectedWord> flags = {};  ///< of the verb
  std::optional<ExpectedWord> next =
      {};  ///< the next word, unless it is a flag; nullopt: nothing more is expected
  bool is_flag_value = false;  ///< the word before is the flag `next`, so that a flag cannot follow
};

/// Takes apart the words between the program's name and the one that is being typed: at least a
/// verb. Never fails.
UnfinishedLine parse_unfinished(std::span<const std::string> words);

}  // namespace runner
