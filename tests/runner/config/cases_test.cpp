// Runs the text cases of tests/cases; their format is described in tests/cases/README.md.

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/config/compose.h"
#include "runner/config/yaml_reader.h"
#include "runner/config/yaml_writer.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/text_case.h"

namespace runner {
namespace {

std::vector<TextCase> all_cases() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(RETORT_SOURCE_DIR) / "tests/cases")) {
    const bool is_table = entry.path().stem() == "published_commands";  // of a test of its own
    if (entry.path().extension() == ".case" && !is_table) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<TextCase> cases;
  for (const auto& path : paths) {
    for (TextCase& text_case : read_cases(path)) cases.push_back(std::move(text_case));
  }
  return cases;
}

std::string trimmed(std::string text) {
  while (text.ends_with("\n\n")) text.pop_back();
  return text == "\n" ? "" : text;
}

std::string printed(const Diagnostics& diagnostics) {
  std::ostringstream out;
  for (const Diagnostic& diagnostic : diagnostics) print(out, diagnostic);
  return out.str();
}

std::string dotted(std::span<const std::string> path) {
  std::string result;
  for (const std::string& key : path) result += (result.empty() ? "" : ".") + key;
  return result;
}

/// `declares` as compose() asks for it.
std::map<std::string, Value> declarations(const std::string& text, Sources& sources) {
  std::map<std::string, Value> result;
  const auto value = read_yaml(sources.add("declares", text));
  for (const Entry& entry : *value->map()) result[entry.key] = entry.value;
  return result;
}

class Cases : public testing::TestWithParam<TextCase> {};

TEST_P(Cases, Compose) {
  setenv("TZ", "UTC", 1);
  tzset();
  const std::map<std::string, std::string>& sections = GetParam().sections;
  const auto section = [&](const std::string& name) { return sections.contains(name) ? sections.at(name) : ""; };
  MemoryFileSystem files;
  for (const auto& [name, text] : sections) {
    if (name.starts_with("file ")) files.files[name.substr(5)] = trimmed(text);
  }
  Sources sources;
  const auto declared_keys = declarations(section("declares"), sources);
  const Declared declared = [&](const Value&, std::span<const std::string> path) -> std::optional<Value> {
    const auto found = declared_keys.find(dotted(path));
    return found == declared_keys.end() ? std::nullopt : std::optional<Value>(found->second);
  };
  const std::vector<std::string> command = words(section("command"));
  ASSERT_FALSE(command.empty());
  ComposeRequest request{command[0], {command.begin() + 1, command.end()}, {"", "installed"}};
  request.environment = [&](const std::string& name) -> std::optional<std::string> {
    std::istringstream lines(section("environment"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
    }
    return std::nullopt;
  };
  request.now = std::chrono::system_clock::time_point(std::chrono::microseconds(1'750'000'000'000'250));
  request.declared_keys = [&](const Value&, std::span<const std::string> path) {
    std::vector<std::string> keys;
    const std::string start = path.empty() ? "" : dotted(path) + ".";
    for (const auto& [key, value] : declared_keys) {
      if (key.starts_with(start)) keys.push_back(key.substr(start.size(), key.find('.', start.size()) - start.size()));
    }
    return keys;
  };
  auto composer = Composer::open(request, files, declared, sources);
  auto result = composer ? composer->compose_once() : composer.errors();
  const auto recipe = result ? composer->resolve(*result, &result->warnings) : result.errors();
  if (sections.contains("errors")) {
    EXPECT_EQ(recipe ? "composed:\n" + write_yaml(*recipe) : printed(recipe.errors()), trimmed(section("errors")));
    return;
  }
  if (sections.contains("yaml")) {
    ASSERT_TRUE(recipe) << printed(recipe.errors());
    EXPECT_EQ(write_yaml(*recipe), trimmed(section("yaml")));
  }
  ASSERT_TRUE(result) << printed(result.errors());
  if (sections.contains("unresolved")) {
    EXPECT_EQ(write_yaml(result->unresolved), trimmed(section("unresolved")));
  }
  EXPECT_EQ(printed(result->warnings), trimmed(section("warnings")));
}

INSTANTIATE_TEST_SUITE_P(Text, Cases, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace runner
