#include "runner/parent/cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <span>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/command_line.h"
#include "runner/parent/cli/stack_limit.h"
#include "runner/parent/cli/text_check.h"
#include "runner/parent/compile/recipe.h"
#include "runner/shared/error/system_limit.h"

namespace runner {
namespace {

/// With the home folder where a path begins with ~/: a shell leaves --out=~/figures and what is
/// quoted as it is.
std::vector<std::string> with_homes(std::vector<std::string> words) {
  for (std::string& word : words) {
    const std::size_t value = word.starts_with("--") ? word.find('=') + 1 : 0;
    word = word.substr(0, value) + with_home(word.substr(value));
  }
  return words;
}

ExitCode run_words(std::span<const std::string> words, Console& console) {
  if (!words.empty() && words[0] == "__complete") return complete_words(words.subspan(1), console);
  console.json = std::ranges::count(words, "--json") > 0;  // also for what is wrong with the words
  if (const Diagnostics errors = check_texts(words); !errors.empty())
    return report(console, errors);
  const auto parsed = parse_command_line(words);
  if (!parsed) return report(console, parsed.errors());
  if (const auto* help = std::get_if<HelpText>(&*parsed)) {
    console.out << help->text;
    return help->about.name.empty() ? ExitCode::kDone : help_about_recipe(help->about, console);
  }
  const auto& line = std::get<ParsedLine>(*parsed);
  console.json = line.output.json;
  console.verbosity = line.output.quiet     ? Verbosity::kQuiet
                      : line.output.verbose ? Verbosity::kVerbose
                                            : Verbosity::kNormal;
  return line.invocation.run(console);
}

ExitCode run_or_report(std::span<const std::string> words, Console& console) {
  try {
    if (auto error = raise_stack_limit()) return report(console, {*std::move(error)});
    return run_words(words, console);
  } catch (const std::exception& error) {
    return report(console, {unexpected(error)});
  }
}

}  // namespace

int run_program(const std::vector<std::string>& words) {
  StandardOutput results(STDOUT_FILENO);
  std::cerr.tie(&results);
  Console console{.out = results, .err = std::cerr, .color = wants_color(STDERR_FILENO)};
  const bool completes = !words.empty() && words[0] == "__complete";
  const ExitCode code = run_or_report(completes ? words : with_homes(words), console);
  std::cerr.tie(nullptr);
  return static_cast<int>(finish(console, results, code));
}

}  // namespace runner
