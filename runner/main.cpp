#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "runner/cli/command.h"
#include "runner/cli/command_line.h"

using namespace runner;

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Console console{.out = std::cout, .err = std::cerr, .color = wants_color(STDERR_FILENO)};
  try {
    if (!words.empty() && words[0] == "__complete")
      return static_cast<int>(complete_words(std::span(words).subspan(1), console));
    const auto parsed = parse_command_line(words);
    if (!parsed) return static_cast<int>(report(console, parsed.errors()));
    if (const auto* help = std::get_if<HelpText>(&*parsed)) {
      std::cout << help->text;
      return help->about.recipe.empty() ? 0 : static_cast<int>(help_about_recipe(help->about, console));
    }
    const auto& arguments = std::get<Arguments>(*parsed);
    console.json = arguments.json;
    console.verbosity = arguments.quiet     ? Verbosity::kQuiet
                        : arguments.verbose ? Verbosity::kVerbose
                                            : Verbosity::kNormal;
    const auto command = std::ranges::find(all_commands(), arguments.verb, &Command::name);
    return static_cast<int>(command->run(arguments, console));
  } catch (const std::exception& error) {
    return static_cast<int>(
        report(console, {{ErrorCode::kInternal, {}, "", error.what(), "this should not happen: please report it"}}));
  }
}
