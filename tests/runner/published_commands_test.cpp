// Every published training command has a literal counterpart: tests/cases/published_commands.case.

#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/command_line.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/config/yaml_reader.h"
#include "tests/support/shared_data.h"
#include "tests/support/text_case.h"

namespace runner {
namespace {

const std::filesystem::path kTable =
    std::filesystem::path(RETORT_SOURCE_DIR) / "tests/cases/published_commands.case";

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) result.push_back(line);
  }
  return result;
}

const Value* find_dotted(const Value& value, const std::string& key) {
  const Value* at = &value;
  std::istringstream parts(key);
  for (std::string part; at && std::getline(parts, part, '.');) at = at->find(part);
  return at;
}

/// The output of a rejected command; empty if the graph compiles, in which case `resolved` is the
/// recipe.
std::string refusal_of_command(const std::string& command, Value& resolved) {
  std::vector<std::string> typed = words(command);
  EXPECT_EQ(typed.at(0), "retort") << command;
  typed.erase(typed.begin());
  const auto parsed = parse_command_line(typed);
  std::ostringstream said;
  const auto print_all = [&](Diagnostics errors) {
    for (Diagnostic& error : errors) {
      error.notes.clear();  // they refer to lines of the recipe, which move
      print(said, error);
    }
    std::string text = said.str();  // file names may be absolute or relative
    for (const std::string root = RETORT_SOURCE_DIR "/"; text.find(root) != text.npos;)
      text.erase(text.find(root), root.size());
    return text;
  };
  if (!parsed) return print_all(parsed.errors());
  const auto& line = std::get<ParsedLine>(*parsed);
  if (!line.invocation.recipe || line.invocation.recipe->name.empty()) return "";
  NamedRecipe named = *line.invocation.recipe;
  named.config_dirs.push_back(RETORT_SOURCE_DIR);
  Sources sources;
  static const SchemaSet& schemas = shipped_schemas();
  if (line.verb == "sweep") {
    const auto sweep = prepare_sweep(named, schemas, sources);
    return sweep ? "" : print_all(sweep.errors());
  }
  const auto prepared = prepare(named, schemas, sources);
  if (!prepared) return print_all(prepared.errors());
  resolved = prepared->recipe.resolved;
  return "";
}

class PublishedCommand : public testing::TestWithParam<TextCase> {};

TEST_P(PublishedCommand, HasACounterpart) {
  const auto& sections = GetParam().sections;
  const auto section = [&](const char* name) {
    return sections.contains(name) ? sections.at(name) : "";
  };
  EXPECT_FALSE(lines(section("original")).empty());
  const auto commands = lines(section("command"));
  ASSERT_FALSE(commands.empty());
  if (sections.contains("errors")) {
    Value ignored;
    ASSERT_EQ(commands.size(), 1U);
    EXPECT_EQ(lines(refusal_of_command(commands[0], ignored)), lines(section("errors")));
    return;
  }
  for (const std::string& command : commands) {
    Value resolved;
    EXPECT_EQ(refusal_of_command(command, resolved), "") << command;
    Sources sources;
    const auto expected = read_yaml(sources.add("gives", section("gives")));
    ASSERT_TRUE(expected);
    if (!expected->map()) continue;
    for (const Entry& entry : *expected->map()) {
      const Value* found = find_dotted(resolved, entry.key);
      EXPECT_TRUE(found && same_data(*found, entry.value))
          << command << ": " << entry.key << " is " << (found ? describe(*found) : "not there");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Text, PublishedCommand, testing::ValuesIn(read_cases(kTable)),
                         [](const auto& info) { return test_name(info.param); });

/// The commands in the write-ups: lines that begin with `python` and name a script, continued by a
/// backslash.
std::set<std::string> written_commands(const std::filesystem::path& folder) {
  std::set<std::string> commands;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::string command;
    for (std::string line; std::getline(file, line);) {
      const bool begins =
          line.find("python ") == line.find_first_not_of(" \t") && line.find(".py") != line.npos;
      if (command.empty() && !begins) continue;
      const auto comment = line.find("  #");
      std::string part = line.substr(0, comment);
      while (!part.empty() && std::string(" &\t\r").find(part.back()) != std::string::npos)
        part.pop_back();
      const bool goes_on = part.ends_with('\\');
      if (goes_on) part.pop_back();
      for (const std::string& word : words(part)) command += (command.empty() ? "" : " ") + word;
      if (goes_on) continue;
      commands.insert(std::exchange(command, ""));
    }
  }
  return commands;
}

TEST(PublishedCommands, AllWriteUpCommandsAreCovered) {
  const auto folder = shared_data("sources");
  RETORT_NEEDS_SHARED(folder);
  std::set<std::string> known;
  for (const TextCase& one : read_cases(kTable)) {
    for (const std::string& line : lines(one.sections.at("original"))) known.insert(line);
  }
  for (const std::string& command : written_commands(folder)) {
    EXPECT_TRUE(known.contains(command)) << command;
  }
}

}  // namespace
}  // namespace runner
