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

/// The overrides that a help text suggests, instead of or in addition to those that were typed;
/// VALUE stands for any value.
inline std::vector<std::string> advised_overrides(const std::string& help) {
  static const std::regex kAdvised(
      R"((?:to add it: |it is changed: |to make it a mapping: |defaults list use |of your own: |for a list write )"
      R"(|for a string |whatever it is: |set it: |choose one: )([~+]*[A-Za-z_](?:\\'[^']*'|[^ ,;'\[]|\[[^\]]*\])*))");
  static const std::regex kAny("=VALUE$");
  std::vector<std::string> overrides;
  for (const std::string& advised : all_matches(help, kAdvised)) {
    if (advised.ends_with("=OPTION")) continue;
    // Splits words like a shell.
    overrides.push_back(
        std::regex_replace(std::regex_replace(advised, kAny, "=1"), std::regex(R"(\\')"), "'"));
  }
  return overrides;
}

/// The commands in backticks in a help text.
inline std::vector<std::string> advised_commands(const std::string& help) {
  static const std::regex kCommand("`(retort [^`]*)`");
  return all_matches(help, kCommand);
}
