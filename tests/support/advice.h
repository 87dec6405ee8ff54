#pragma once

#include <regex>
#include <string>
#include <vector>

inline std::vector<std::string> all_matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}

/// The overrides that a help says to type in place of what was typed, or besides it; VALUE stands
/// for any.
inline std::vector<std::string> advised_overrides(const std::string& help) {
  static const std::regex kAdvised(
      R"((?:to add it: |it is changed: |to make it a mapping: |defaults list use |of your own: |for a list write )"
      R"(|for a string |whatever it is: |set it: |choose one: )([~+]*[A-Za-z_](?:\\'[^']*'|[^ ,;'\[]|\[[^\]]*\])*))");
  static const std::regex kAny("=VALUE$");
  std::vector<std::string> overrides;
  for (const std::string& advised : all_matches(help, kAdvised)) {
    if (advised.ends_with("=OPTION")) continue;
    // As a shell reads it.
    overrides.push_back(
        std::regex_replace(std::regex_replace(advised, kAny, "=1"), std::regex(R"(\\')"), "'"));
  }
  return overrides;
}

/// The commands that a help names, which stand in backticks.
inline std::vector<std::string> advised_commands(const std::string& help) {
  static const std::regex kCommand("`(retort [^`]*)`");
  return all_matches(help, kCommand);
}
