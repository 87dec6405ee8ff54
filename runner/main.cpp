#include <unistd.h>

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
      return help->about.name.empty() ? 0 : static_cast<int>(help_about_recipe(help->about, console));
    }
    const auto& line = std::get<ParsedLine>(*parsed);
    console.json = line.talk.json;
    console.verbosity = line.talk.quiet     ? Verbosity::kQuiet
                        : line.talk.verbose ? Verbosity::kVerbose
                                            : Verbosity::kNormal;
    return static_cast<int>(line.invocation.run(console));
  } catch (const std::exception& error) {
    return static_cast<int>(
        report(console, {{ErrorCode::kInternal, {}, "", error.what(), "this should not happen: please report it"}}));
  }
}
