#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/cli/arguments.h"
#include "runner/cli/console.h"

namespace runner {

/// One verb of the command line.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line for `retort --help`
  std::string_view example;  ///< a line that works
  ExitCode (*run)(const Arguments& arguments, Console& console);
};

/// Every verb, in the order of `retort --help`.
std::span<const Command> all_commands();

/// One a file in runner/commands/.
ExitCode run_command(const Arguments& arguments, Console& console);
ExitCode resume_command(const Arguments& arguments, Console& console);
ExitCode evaluate_command(const Arguments& arguments, Console& console);
ExitCode predict_command(const Arguments& arguments, Console& console);
ExitCode export_command(const Arguments& arguments, Console& console);
ExitCode analyze_command(const Arguments& arguments, Console& console);
ExitCode compare_command(const Arguments& arguments, Console& console);
ExitCode sweep_command(const Arguments& arguments, Console& console);
ExitCode plan_command(const Arguments& arguments, Console& console);
ExitCode certify_command(const Arguments& arguments, Console& console);
ExitCode validate_command(const Arguments& arguments, Console& console);
ExitCode graph_command(const Arguments& arguments, Console& console);
ExitCode config_command(const Arguments& arguments, Console& console);
ExitCode config_diff_command(const Arguments& arguments, Console& console);
ExitCode stages_command(const Arguments& arguments, Console& console);
ExitCode explain_command(const Arguments& arguments, Console& console);
ExitCode schema_command(const Arguments& arguments, Console& console);
ExitCode data_command(const Arguments& arguments, Console& console);
ExitCode data_fetch_command(const Arguments& arguments, Console& console);
ExitCode doctor_command(const Arguments& arguments, Console& console);
ExitCode doctor_determinism_command(const Arguments& arguments, Console& console);
ExitCode doctor_memory_command(Console& console);
ExitCode init_command(const Arguments& arguments, Console& console);
ExitCode completion_command(const Arguments& arguments, Console& console);

/// What `retort run NAME --help` says of the recipe, after the help of the verb.
ExitCode help_about_recipe(const Arguments& arguments, Console& console);

/// `retort __complete`, which the scripts of `retort completion` call: "words", then the words after the program's
/// name up to the cursor; or "line", then the line up to the cursor and bash's COMP_WORDBREAKS. Prints a candidate a
/// line: the whole word, and after a tab its description; for a line what bash is to put in.
ExitCode complete_words(std::span<const std::string> words, Console& console);

}  // namespace runner
