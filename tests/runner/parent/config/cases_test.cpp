// Runs the text cases of tests/cases; their format is described in tests/cases/README.md.

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/config/compose.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/config/yaml_writer.h"
#include "tests/support/advice.h"
#include "tests/support/fake_recipe_keys.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/text_case.h"

namespace runner {
namespace {

std::vector<TextCase> all_cases() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(RETORT_SOURCE_DIR) / "tests/cases")) {
    const bool is_table = entry.path().stem() == "published_commands";  // has its own test
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

/// The schemas of a case.
FakeRecipeKeys keys_of(const std::string& declares, const std::string& other_names,
                       Sources& sources) {
  FakeRecipeKeys keys;
  const auto defaults = read_yaml(sources.add("declares", declares));
  for (const Entry& entry : *defaults->map()) keys.defaults[entry.key] = entry.value;
  const auto mappings = read_yaml(sources.add("other names", other_names));
  for (const Entry& mapping : *mappings->map()) {
    for (const Entry& key : *mapping.value.map())
      keys.names.push_back({mapping.key, key.key, *key.value.text()});
  }
  return keys;
}

/// The result of composing a case. `errors` point into `sources`.
struct Composed {
  Sources sources = {};
  std::optional<Composition> composition = {};
  std::optional<Value> recipe = {};
  Diagnostics errors = {};
};

/// Composes `command` with the files of a case.
std::unique_ptr<Composed> compose_case(const std::map<std::string, std::string>& sections,
                                       const std::vector<std::string>& command) {
  auto composed = std::make_unique<Composed>();
  setenv("TZ", "UTC", 1);
  tzset();
  const auto section = [&](const std::string& name) {
    return sections.contains(name) ? sections.at(name) : "";
  };
  MemoryFileSystem files;
  for (const auto& [name, text] : sections) {
    if (name.starts_with("file ")) files.files[name.substr(5)] = trimmed(text);
  }
  Sources& sources = composed->sources;
  const FakeRecipeKeys keys = keys_of(section("declares"), section("other names"), sources);
  ComposeRequest request{command[0],
                         {command.begin() + 1, command.end()},
                         {"experiments", "recipes", "installed/experiments", "installed/recipes"}};
  request.environment = [&](const std::string& name) -> std::optional<std::string> {
    std::istringstream lines(section("environment"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
    }
    return std::nullopt;
  };
  request.now =
      std::chrono::system_clock::time_point(std::chrono::microseconds(1'750'000'000'000'250));
  auto composer = Composer::open(request, files, keys, sources);
  auto result = composer ? composer->compose_once() : composer.errors();
  auto recipe = result ? composer->resolve(*result, &result->warnings) : result.errors();
  if (!recipe) composed->errors = recipe.errors();
  else composed->recipe = *std::move(recipe);
  if (result) composed->composition = *std::move(result);
  return composed;
}

class Cases : public testing::TestWithParam<TextCase> {};

TEST_P(Cases, Compose) {
  const std::map<std::string, std::string>& sections = GetParam().sections;
  const auto section = [&](const std::string& name) {
    return sections.contains(name) ? sections.at(name) : "";
  };
  const std::vector<std::string> command = words(section("command"));
  ASSERT_FALSE(command.empty());
  const auto composed = compose_case(sections, command);
  const auto& [sources, composition, recipe, errors] = *composed;
  if (sections.contains("errors")) {
    EXPECT_EQ(recipe ? "composed:\n" + write_yaml(*recipe) : printed(errors),
              trimmed(section("errors")));
    return;
  }
  if (sections.contains("yaml")) {
    ASSERT_TRUE(recipe) << printed(errors);
    EXPECT_EQ(write_yaml(*recipe), trimmed(section("yaml")));
  }
  ASSERT_TRUE(composition) << printed(errors);
  if (sections.contains("unresolved")) {
    EXPECT_EQ(write_yaml(composition->unresolved), trimmed(section("unresolved")));
  }
  EXPECT_EQ(printed(composition->warnings), trimmed(section("warnings")));
}

/// Following the advice of a help text fixes one mistake.
TEST_P(Cases, AdviceCanBeFollowed) {
  const auto found = GetParam().sections.find("command");
  const std::vector<std::string> command =
      found == GetParam().sections.end() ? words("") : words(found->second);
  const auto composed = compose_case(GetParam().sections, command);
  for (const Diagnostic& error : composed->errors) {
    for (const std::string& advised : advised_overrides(error.help)) {
      std::vector<std::string> followed = command;
      const std::string place = error.where.source ? error.where.source->name : "";
      if (place.starts_with("override ")) followed.at(std::stoul(place.substr(9))) = advised;
      else followed.push_back(advised);
      const auto again = compose_case(GetParam().sections, followed);
      for (const Diagnostic& next : again->errors) {
        const bool is_at_advice = next.where.source && next.where.source->contents == advised;
        EXPECT_FALSE(is_at_advice || next.message == error.message) << advised << ":\n"
                                                                    << printed({next});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Text, Cases, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace runner
