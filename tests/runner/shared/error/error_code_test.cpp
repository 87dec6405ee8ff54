#include "runner/shared/error/error_code.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(ErrorTable, EveryCodeIsExplainedInSentences) {
  for (const ErrorInfo& error : all_errors()) {
    EXPECT_FALSE(error.title.empty()) << name(error.code);
    EXPECT_FALSE(error.example.empty()) << name(error.code);
    EXPECT_TRUE(error.cause.ends_with('.')) << name(error.code) << ": " << error.cause;
    EXPECT_TRUE(error.remedy.ends_with('.')) << name(error.code) << ": " << error.remedy;
  }
}

TEST(ErrorTable, NumbersAreUniqueAndAscending) {
  int last = 0;
  for (const ErrorInfo& error : all_errors()) {
    EXPECT_GT(static_cast<int>(error.code), last);
    last = static_cast<int>(error.code);
  }
  EXPECT_EQ(name(ErrorCode::kYamlSyntax), "E0101");
}

/// Every word in the sources that looks like a constant, except those in the tables of error codes.
std::set<std::string> constants_in_the_sources() {
  std::set<std::string> words;
  for (const char* folder : {"runner", "stages"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::filesystem::path(RETORT_SOURCE_DIR) / folder)) {
      const std::string stem = entry.path().stem();
      if (!entry.is_regular_file() || stem == "error_code" || stem == "recipe_errors") continue;
      std::ifstream file(entry.path());
      std::stringstream text;
      text << file.rdbuf();
      std::string word;
      for (const char c : text.str() + ' ') {
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') word += c;
        else {
          if (word.starts_with('k')) words.insert(word);
          word.clear();
        }
      }
    }
  }
  return words;
}

// Only the enumeration contains the constants' names.
TEST(ErrorTable, EveryCodeIsStillReportedSomewhere) {
  std::ifstream header(std::filesystem::path(RETORT_SOURCE_DIR) /
                       "runner/shared/error/error_code.h");
  const std::set<std::string> used = constants_in_the_sources();
  std::size_t codes = 0;
  for (std::string line; std::getline(header, line);) {
    const std::size_t start = line.find("  k"), end = line.find(" = ");
    if (start != 0 || end == line.npos) continue;
    ++codes;
    EXPECT_TRUE(used.contains(line.substr(2, end - 2))) << line << " is reported nowhere";
  }
  EXPECT_EQ(codes, all_errors().size());
}

}  // namespace
}  // namespace runner
