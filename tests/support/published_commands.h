#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

/// A published command in the form that runs with Retort.
struct PublishedCommand {
  std::string arguments;  ///< "fsct method=FSCT_cosine"
  bool is_refused = false;
};

/// The commands for recipes with names that start with `recipe`.
inline std::vector<PublishedCommand> published_commands(const std::string& recipe) {
  std::vector<PublishedCommand> commands;
  std::size_t of_section = 0;
  std::ifstream file(RETORT_SOURCE_DIR "/tests/cases/published_commands.case");
  for (std::string line; std::getline(file, line);) {
    const std::string start = "retort run ";
    if (line.starts_with("=== ")) of_section = commands.size();
    if (line.starts_with(start + recipe))
      commands.push_back({.arguments = line.substr(start.size())});
    if (line != "--- errors") continue;
    for (std::size_t i = of_section; i < commands.size(); ++i) commands[i].is_refused = true;
  }
  return commands;
}

/// The commands to plan, which takes a second each: all in the long tests, otherwise the refused
/// ones and every third of the others.
inline std::vector<PublishedCommand> commands_to_plan(std::vector<PublishedCommand> commands) {
  if (std::getenv("RETORT_DEEP")) return commands;
  std::size_t valid = 0;
  std::erase_if(commands, [&](const PublishedCommand& command) {
    return !command.is_refused && valid++ % 3 != 0;
  });
  return commands;
}
