#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

/// The sections of one case in a file, by name. tests/cases/README.md describes the format.
struct TextCase {
  std::string file;
  std::string name;
  std::map<std::string, std::string> sections;
};

/// Prints the name of a case for the list of tests.
inline void PrintTo(const TextCase& one, std::ostream* out) { *out << one.name; }

/// Splits a file into its cases; the sections before the first are copied into each.
inline std::vector<TextCase> read_cases(const std::filesystem::path& path) {
  std::vector<TextCase> cases;
  std::map<std::string, std::string> shared;
  std::string* section = nullptr;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({path.stem().string(), line.substr(4), shared});
      section = nullptr;
    } else if (line.starts_with("--- ")) {
      section = &(cases.empty() ? shared : cases.back().sections)[line.substr(4)];
      section->clear();
    } else if (section) {
      *section += line + '\n';
    }
  }
  return cases;
}

/// The words of a command: single quotes hold blanks together.
inline std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> result;
  std::string word;
  bool quoted = false, any = false;
  for (const char c : text + ' ') {
    if (c == '\'') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && (c == ' ' || c == '\n')) {
      if (any || !word.empty()) result.push_back(std::exchange(word, ""));
      any = false;
    } else {
      word += c;
    }
  }
  return result;
}

/// A case's name as GoogleTest accepts it: letters and digits, others as '_'.
inline std::string test_name(const TextCase& one) {
  std::string name = one.file + "_";
  for (const char c : one.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
