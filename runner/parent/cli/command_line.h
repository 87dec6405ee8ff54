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

/// Text requested by --help or --version, printed instead of running a verb.
struct HelpText {
  std::string text;
  NamedRecipe about = {};  ///< the recipe given along with a verb's --help; empty name: none
};

/// Parses the words after the program's name. Flags and overrides may come in any order. For an
/// unknown verb or flag, the error suggests the closest name.
Result<std::variant<ParsedLine, HelpText>> parse_command_line(std::span<const std::string> words);

/// True if `word` is an override rather than the name or file of a recipe.
bool is_override(const std::string& word);

/// A flag or positional argument that could be typed next.
struct ExpectedWord {
  std::string name;  ///< "--format", "recipe"
  std::string summary;
  std::string type;                       ///< the value's type in help: "DIR"; may be empty
  std::vector<std::string> choices = {};  ///< the allowed values; empty: any
};

/// A command line that is still being typed.
struct UnfinishedLine {
  std::string verb;
  std::string action = {};               ///< the typed action, if the verb has several
  NamedRecipe recipe = {};               ///< the recipe and overrides typed so far
  std::vector<ExpectedWord> flags = {};  ///< flags of the verb
  std::optional<ExpectedWord> next =
      {};                      ///< the positional argument or flag value that comes next, if any
  bool is_flag_value = false;  ///< the previous word is the flag `next`, which needs a value
};

/// Parses the words between the program's name and the word being typed. They must include at least
/// a verb. Never fails.
UnfinishedLine parse_unfinished(std::span<const std::string> words);

}  // namespace runner
