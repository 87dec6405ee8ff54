// Every flag that help texts, messages and schemas mention belongs to the command line or to
// another program.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/command_line.h"
#include "tests/support/program.h"
#include "tests/support/text_case.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Flags = std::set<std::string>;

/// Flags of Slurm's sbatch, convmv, cmake, nvidia-smi and retort-worker, placeholders in usage
/// lines, and mistakes that a text explains.
const Flags kForeign = {"--array",
                        "--backend-store-uri",
                        "--build",
                        "--constraint",
                        "--cpus-per-task",
                        "--events-fd",
                        "--flags",
                        "--gpu-reset",
                        "--gpus",
                        "--library",
                        "--mem",
                        "--notest",
                        "--ntasks",
                        "--nodes",
                        "--ntasks-per-node",
                        "--gpus-per-node",
                        "--kill-on-bad-exit",
                        "--open-mode",
                        "--parsable",
                        "--torch",
                        "--requeue",
                        "--signal",
                        "--smok",
                        "--target",
                        "--time"};

bool is_of_flag(char c) { return std::islower(static_cast<unsigned char>(c)) || c == '-'; }

/// The words in `text` that begin with two dashes, such as --dry-run.
std::vector<std::string> flags_in(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = text.find("--", at)) != text.npos;) {
    std::size_t end = at;
    while (end < text.size() && is_of_flag(text[end])) ++end;
    const bool is_word = (at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]))) &&
                         end > at + 2 && text[at + 2] != '-' &&
                         (end == text.size() || text[end] != '_');
    if (is_word && (at == 0 || text[at - 1] != '-')) found.push_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

/// The flags of each verb.
const std::map<std::string, Flags>& flags_of_verbs() {
  static const std::map<std::string, Flags> all = [] {
    std::map<std::string, Flags> flags;
    for (const Command* command : all_commands()) {
      Flags& own = flags[std::string(command->name)];
      own = {"--json", "--verbose", "--quiet", "--help"};
      for (const Parameter& parameter : command->declare().parameters) {
        std::istringstream names(parameter.name);
        for (std::string name; std::getline(names, name, ',');) own.insert(name);
      }
    }
    return flags;
  }();
  return all;
}

bool is_known(const std::string& flag) {
  return flag == "--version" || kForeign.contains(flag) ||
         std::ranges::any_of(flags_of_verbs(),
                             [&](const auto& verb) { return verb.second.contains(flag); });
}

/// "--x" for each flag in `text` that no verb has, and "retort VERB --x" for each flag in a command
/// between backticks that this verb does not have.
std::vector<std::string> unknown_flags(const std::string& text) {
  std::vector<std::string> unknown;
  for (const std::string& flag : flags_in(text))
    if (!is_known(flag)) unknown.push_back(flag);
  constexpr std::string_view kCommand = "`retort ";
  for (std::size_t at = 0; (at = text.find(kCommand, at)) != text.npos;) {
    at += kCommand.size();
    const std::string command = text.substr(at, text.find('`', at) - at);
    const std::string verb = command.substr(0, command.find(' '));
    const auto own = flags_of_verbs().find(verb);
    if (own == flags_of_verbs().end()) continue;
    for (const std::string& flag : flags_in(command))
      if (!own->second.contains(flag) && !kForeign.contains(flag))
        unknown.push_back("retort " + verb + " " + flag);
  }
  return unknown;
}

/// The string literals of a source file, one per line; adjacent literals are joined.
std::string literals_of(const std::string& source) {
  std::string all;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(' ') == line.find("//")) continue;
    for (std::size_t at = 0; (at = line.find('"', at)) != line.npos;) {
      std::size_t end = at + 1;
      while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
      const bool goes_on = line.find_first_not_of(' ') == at && all.ends_with('\0');
      if (goes_on) all.pop_back();
      all += (goes_on ? "" : "\n") + line.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    if (line.ends_with('"')) all += '\0';
  }
  return all;
}

TEST(MentionedFlags, LiteralsMentionOnlyFlagsOfTheirVerb) {
  int seen = 0;
  for (const char* half : {"runner", "stages"}) {
    for (const auto& file : fs::recursive_directory_iterator(fs::path(RETORT_SOURCE_DIR) / half)) {
      if (file.path().extension() != ".cpp" && file.path().extension() != ".h") continue;
      const std::string text = literals_of(file_text(file.path()));
      seen += static_cast<int>(flags_in(text).size());
      EXPECT_THAT(unknown_flags(text), testing::IsEmpty()) << file.path();
    }
  }
  EXPECT_GT(seen, 200);
}

TEST(MentionedFlags, HelpAndSchemasMentionOnlyKnownFlags) {
  for (const auto& [verb, own] : flags_of_verbs()) {
    const auto help = parse_command_line(std::vector<std::string>{verb, "--help"});
    ASSERT_TRUE(help) << verb;
    EXPECT_THAT(unknown_flags(std::get<HelpText>(*help).text), testing::IsEmpty()) << verb;
  }
  for (const auto& file :
       fs::recursive_directory_iterator(fs::path(RETORT_SOURCE_DIR) / "schemas")) {
    if (file.is_regular_file())
      EXPECT_THAT(unknown_flags(file_text(file.path())), testing::IsEmpty()) << file.path();
  }
}

TEST(MentionedFlags, ExpectedMessagesMentionOnlyKnownFlags) {
  const fs::path cases = fs::path(RETORT_SOURCE_DIR) / "tests/cases";
  for (const auto& file : fs::recursive_directory_iterator(cases)) {
    // Commands of other programs are translated there.
    if (file.path().extension() != ".case" || file.path().stem() == "published_commands") continue;
    for (const TextCase& one : read_cases(file.path())) {
      for (const auto& [section, text] : one.sections)
        if (section != "run" && section != "command")
          EXPECT_THAT(unknown_flags(text), testing::IsEmpty()) << file.path() << ' ' << section;
    }
  }
}

TEST(MentionedFlags, UnknownFlagsAreFound) {
  EXPECT_THAT(unknown_flags("write --frce, or --gpu; a--b and --lr_rate are none"),
              testing::ElementsAre("--frce"));
  EXPECT_THAT(unknown_flags("`retort runs ls . --smoke` or `retort run a --smoke`"),
              testing::ElementsAre("retort runs --smoke"));
}

}  // namespace
}  // namespace runner
