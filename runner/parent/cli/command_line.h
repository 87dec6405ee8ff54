#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Output flags that every verb has.
struct OutputFlags {
  bool json = false;
  bool verbose = false;
  bool quiet = false;
};

/// A parsed command line: what to run, and how to print.
struct ParsedLine {
  std::string verb;
  Invocation invocation;
  OutputFlags output;
};

/// A text that was asked for instead of work: --help or --version.
struct HelpText {
  std::string text;
  NamedRecipe about = {};  ///< the recipe named with a verb's --help; its name may be empty
};

/// Parses the words after the program's name. Flags and overrides may stand in any order. An
/// unknown verb or flag is a diagnostic with the nearest name.
Result<std::variant<ParsedLine, HelpText>> parse_command_line(std::span<const std::string> words);

/// True if `word` is meant as an override, and not as the name or file of a recipe.
bool is_override(const std::string& word);

/// A flag or positional word that may be typed next.
struct ExpectedWord {
  std::string name;  ///< "--format", "recipe"
  std::string summary;
  std::string type;                       ///< the value's type in help: "DIR"; may be empty
  std::vector<std::string> choices = {};  ///< the allowed values; empty: any
};

/// A command line whose end is still to be typed.
struct UnfinishedLine {
  std::string verb;
  std::string action = {};               ///< the typed action, if the verb has several
  NamedRecipe recipe = {};               ///< what has been typed of the recipe
  std::vector<ExpectedWord> flags = {};  ///< flags of the verb
  std::optional<ExpectedWord> next =
      {};                      ///< the next word, unless it is a flag; nullopt: no word is expected
  bool is_flag_value = false;  ///< the previous word is the flag `next`, so a flag cannot follow
};

/// Parses the words between the program's name and the word being typed; there must be at least a
/// verb. Never fails.
UnfinishedLine parse_unfinished(std::span<const std::string> words);

}  // namespace runner
