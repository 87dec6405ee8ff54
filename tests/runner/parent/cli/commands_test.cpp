// Runs the program itself on the cases in tests/cases/commands and compares its output.

#include <algorithm>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/advice.h"
#include "tests/support/fake_installation.h"
#include "tests/support/program.h"
#include "tests/support/text_case.h"

namespace {

std::vector<TextCase> all_cases() {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path folder =
      std::filesystem::path(RETORT_SOURCE_DIR) / "tests/cases/commands";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<TextCase> cases;
  for (const auto& path : paths) {
    for (TextCase& one : read_cases(path)) cases.push_back(std::move(one));
  }
  return cases;
}

/// Removes the blank line before the next section.
std::string trimmed(std::string text) {
  while (text.ends_with("\n\n")) text.pop_back();
  return text == "\n" ? "" : text;
}

/// Replaces this build's folder and version and the hashes of recipes with names. Separates columns
/// by two spaces, since their width depends on the folder.
std::string comparable(const std::string& text) {
  static const std::regex build(RETORT_BINARY_DIR), hash("\\b([0-9a-f]{64}|[0-9a-f]{10})\\b"),
      columns("([^ |\n])  +");
  static const std::regex version("\"retort\": \"[0-9.]+\"");
  std::string named =
      std::regex_replace(std::regex_replace(trimmed(text), build, "BUILD"), hash, "HASH");
  named = std::regex_replace(named, version, "\"retort\": \"VERSION\"");
  return std::regex_replace(named, columns, "$1  ");
}

/// Installs the program in `folder` with a worker that answers every request with `answer`, then
/// sends the events `more`, one per line, and fails if there are any.
std::filesystem::path installation(const std::filesystem::path& folder, const std::string& answer,
                                   const std::string& more) {
  const nlohmann::ordered_json event = {{"event", "answer"},
                                        {"answer", nlohmann::ordered_json::parse(answer)}};
  std::string acts = "hello read " + quoted("line:" + event.dump());
  std::istringstream lines(trimmed(more));
  for (std::string line; std::getline(lines, line);) acts += " " + quoted("line:" + line);
  return install_with_worker(folder, acts + (more.empty() ? " finished:0" : " finished:1"));
}

class Commands : public testing::TestWithParam<TextCase> {
 protected:
  Commands() {
    for (const auto& [name, text] : sections) {
      if (name.starts_with("file ")) folder.write(name.substr(5), trimmed(text));
    }
    if (sections["run"].starts_with("retort "))
      arguments = sections["run"].substr(std::string("retort ").size());
  }

  const TemporaryFolder folder, beside;
  std::map<std::string, std::string> sections = GetParam().sections;
  std::string arguments;
};

TEST_P(Commands, PrintTheExpectedOutput) {
  ASSERT_NE(arguments, "") << "a case runs retort";
  const Ended ended =
      sections.contains("answer")
          ? run_shell(installation(beside.path(), sections["answer"], sections["more"]).string() +
                          " " + arguments,
                      folder.path())
          : retort(arguments, folder.path());
  EXPECT_EQ(comparable(ended.out), comparable(sections["out"]));
  EXPECT_EQ(comparable(ended.err), comparable(sections["err"]));
  const std::string exit = sections.contains("exit") ? sections["exit"] : "0";
  EXPECT_EQ(ended.exit, std::stoi(exit));
}

/// Commands that a help text suggests are accepted and do not repeat the mistake.
TEST_P(Commands, AdviceCanBeFollowed) {
  static const std::regex kHelp("  help: ([^\n]*)"), kPlace("\\b[A-Z]{2,}\\b|…"),
      kWord("\n  1 \\| ([^\n]*)\n");
  const std::string said = sections["err"];
  const std::string program =
      install_with_worker(beside.path(), "hello read ready read finished:0").string() + " ";
  const std::vector<std::string> typed = all_matches("\n" + said, kWord);
  for (const std::string& help : all_matches(said, kHelp)) {
    for (const std::string& command : advised_commands(help)) {
      if (std::ranges::count(command, ' ') < 2) continue;  // "what `retort run` made" names a verb
      const bool is_pattern = std::regex_search(command, kPlace);
      const std::string words = command.substr(std::string("retort ").size());
      const Ended ended =
          run_shell(program + (is_pattern ? words.substr(0, words.find(' ')) + " --help" : words),
                    folder.path());
      EXPECT_NE(ended.exit, 64) << command << '\n' << ended.err;
      EXPECT_TRUE(ended.err.empty() || ended.err != said) << command << '\n' << ended.err;
    }
    for (const std::string& override : advised_overrides(help)) {
      std::string followed = arguments;
      for (const std::string& word : typed) {
        const std::string key =
            override.substr(override.find_last_of(".+~", override.find('=')) + 1);
        const std::size_t at = word.find(key) == word.npos ? followed.npos : followed.find(word);
        if (at != followed.npos) followed.replace(at, word.size(), quoted(override));
      }
      if (followed == arguments) followed += " " + quoted(override);
      const Ended ended = run_shell(program + followed, folder.path());
      EXPECT_EQ(ended.err.find("| " + override + "\n"), std::string::npos) << followed << '\n'
                                                                           << ended.err;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Text, Commands, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
