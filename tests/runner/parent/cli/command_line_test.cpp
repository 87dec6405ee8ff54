#include "runner/parent/cli/command_line.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/command.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

/// A parsed command line.
class Line {
 public:
  explicit Line(const std::vector<std::string>& words) {
    auto result = parse_command_line(words);
    if (result) line_ = std::get<ParsedLine>(*std::move(result));
    else ADD_FAILURE() << result.errors().front().message;
  }
  const std::string& verb() const { return line_.verb; }
  const OutputFlags& output() const { return line_.output; }
  const NamedRecipe& recipe() const { return *line_.invocation.recipe; }

  /// The value of the parameter `name`: "true" or "false" for a flag without a value, a list joined
  /// by commas.
  std::string operator[](const std::string& name) const {
    const auto& parameters = line_.invocation.parameters;
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    if (found == parameters.end()) return "no parameter " + name;
    return std::visit([](const auto* value) { return text(*value); }, found->value);
  }

 private:
  static std::string text(bool flag) { return flag ? "true" : "false"; }
  static std::string text(std::int64_t number) { return std::to_string(number); }
  static std::string text(const std::string& word) { return word; }
  static std::string text(const std::vector<std::string>& words) {
    std::string joined;
    for (const std::string& word : words) joined += (joined.empty() ? "" : ",") + word;
    return joined;
  }

  ParsedLine line_;
};

Line parsed(const std::vector<std::string>& words) { return Line(words); }

std::string error_of(std::vector<std::string> words) {
  const auto result = parse_command_line(words);
  if (result) return "no error";
  const Diagnostic& error = result.errors().front();
  return name(error.code) + ": " + error.message + (error.help.empty() ? "" : " | " + error.help);
}

std::string help_of(std::vector<std::string> words) {
  const auto result = parse_command_line(words);
  return result && std::holds_alternative<HelpText>(*result) ? std::get<HelpText>(*result).text
                                                             : "no help";
}

using Words = std::vector<std::string>;

TEST(CommandLine, AcceptsFlagsAndOverridesInAnyOrder) {
  const Line line = parsed({"run", "--smoke", "classify", "a=-1", "-q", "~b", "+c={x: [1, 2]}",
                            "--only", "train", "d='x y'"});
  EXPECT_EQ(line.verb(), "run");
  EXPECT_EQ(line.recipe().name, "classify");
  EXPECT_EQ(line.recipe().overrides, (Words{"a=-1", "~b", "+c={x: [1, 2]}", "d='x y'"}));
  EXPECT_EQ(line["--only"], "train");
  EXPECT_EQ(line["--smoke"], "true");
  EXPECT_EQ(line["--reuse"], "false");
  EXPECT_TRUE(line.output().quiet);
  EXPECT_FALSE(line.output().json);
}

TEST(CommandLine, PlanAcceptsABudgetAndADevice) {
  const Line line =
      parsed({"plan", "classify", "--gpu", "NVIDIA L4", "--budget", "8GiB", "--svg", "a.svg",
              "--detailed-exitcode", "--no-reuse", "--only", "train", "lr=1"});
  EXPECT_EQ(line.recipe().name, "classify");
  EXPECT_EQ(line.recipe().overrides, Words{"lr=1"});
  EXPECT_EQ(line["--gpu"], "NVIDIA L4");
  EXPECT_EQ(line["--budget"], "8GiB");
  EXPECT_EQ(line["--svg"], "a.svg");
  EXPECT_EQ(line["--only"], "train");
  EXPECT_EQ(line["--detailed-exitcode"], "true");
  EXPECT_EQ(line["--no-reuse"], "true");
}

TEST(CommandLine, OneFlagCanExcludeAnother) {
  EXPECT_THAT(error_of({"run", "classify", "--reuse", "--no-reuse"}),
              testing::HasSubstr("--reuse excludes --no-reuse"));
}

TEST(CommandLine, DevicesFlagIsShorthandForAnOverride) {
  EXPECT_EQ(parsed({"run", "classify", "--devices", "2", "lr=1"}).recipe().overrides,
            (Words{"lr=1", "device.count=2"}));
  EXPECT_EQ(parsed({"plan", "--devices=3", "classify"}).recipe().overrides,
            Words{"device.count=3"});
  EXPECT_EQ(parsed({"certify", "classify", "--ranks", "4"}).recipe().overrides,
            Words{"device.count=4"});
  EXPECT_EQ(parsed({"resume", "outputs/a", "--devices", "1"})["overrides"], "device.count=1");
  EXPECT_EQ(parsed({"run", "classify", "a=1"}).recipe().overrides, Words{"a=1"});
  EXPECT_THAT(error_of({"run", "classify", "--devices", "0"}), testing::HasSubstr("--devices"));
}

TEST(CommandLine, DevicesFlagCannotBeCombinedWithItsOverride) {
  EXPECT_EQ(error_of({"run", "classify", "device.count=2", "--devices", "2"}),
            "E0501: --devices 2 is short for device.count=2, and 'device.count=2' is given too | "
            "leave one of them out");
  for (const std::string verb : {"run", "resume", "plan"}) {
    for (const std::string word : {"device.count=1", "++device.count=1", "~device.count"})
      EXPECT_THAT(error_of({verb, "it", "--devices", "2", word}), testing::HasSubstr(word));
  }
}

TEST(CommandLine, UnknownLogLevelIsRejected) {
  EXPECT_EQ(parsed({"run", "classify"})["--log-level"], "");
  for (const std::string verb : {"run", "resume", "evaluate"}) {
    EXPECT_EQ(parsed({verb, "it", "--log-level", "debug"})["--log-level"], "debug");
    EXPECT_THAT(error_of({verb, "it", "--log-level=loud"}),
                testing::HasSubstr("trace,debug,info,warn,error,off"));
  }
  EXPECT_THAT(error_of({"validate", "it", "--log-level", "debug"}), testing::HasSubstr("E0501"));
}

TEST(CommandLine, CertifyRequiresARecipe) {
  EXPECT_EQ(parsed({"certify", "classify", "--only", "train"})["--only"], "train");
  EXPECT_EQ(error_of({"certify"}),
            "E0501: no recipe given | give its name or file, as in `retort certify classify`");
}

TEST(CommandLine, EvaluateAcceptsARunAndOverrides) {
  const Line line = parsed({"evaluate", "outputs/a", "data.root=x", "--checkpoint", "best",
                            "--weights", "averaged", "device=cpu"});
  EXPECT_EQ(line["run"], "outputs/a");
  EXPECT_EQ(line["overrides"], "data.root=x,device=cpu");
  EXPECT_EQ(line["--checkpoint"], "best");
  EXPECT_EQ(line["--weights"], "averaged");
}

TEST(CommandLine, DataFetchAcceptsLocalFiles) {
  const Line line = parsed({"data", "fetch", "cub200", "--out", "there", "--url", "http://a",
                            "--from-file", "a.tgz", "b.tgz"});
  EXPECT_EQ(line["action"], "fetch");
  EXPECT_EQ(line["what"], "cub200");
  EXPECT_EQ(line["--out"], "there");
  EXPECT_EQ(line["--url"], "http://a");
  EXPECT_EQ(line["--from-file"], "a.tgz,b.tgz");
  EXPECT_EQ(parsed({"data", "fetch", "hf:a/b", "--file", "x.bin"})["--file"], "x.bin");
}

TEST(CommandLine, PredictAcceptsARunAndPathsMixedWithFlags) {
  const Line line = parsed({"predict", "--top", "3", "outputs/a", "a.jpg", "--skip-corrupt", "b",
                            "device=cpu", "--batch-size=8", "--out", "p.csv", "--node", "train.0"});
  EXPECT_EQ(line["run"], "outputs/a");
  EXPECT_EQ(line["paths"], "a.jpg,b,device=cpu");
  EXPECT_EQ(line["--top"], "3");
  EXPECT_EQ(line["--batch-size"], "8");
  EXPECT_EQ(line["--out"], "p.csv");
  EXPECT_EQ(line["--node"], "train.0");
  EXPECT_EQ(line["--skip-corrupt"], "true");
  EXPECT_EQ(
      parsed({"predict", "--model", "clip", "a.jpg", "--labels", "a car", "a cat"})["--labels"],
      "a car,a cat");
  EXPECT_THAT(error_of({"predict", "outputs/a", "b", "--top", "0"}),
              testing::StartsWith("E0501: --top: "));
}

TEST(CommandLine, EachConfigDirFlagAcceptsOneFolder) {
  const Line line =
      parsed({"validate", "--config-dir", "a", "classify", "--config-dir", "b", "x=1"});
  EXPECT_EQ(line.recipe().config_dirs, (Words{"a", "b"}));
  EXPECT_EQ(line.recipe().overrides, Words{"x=1"});
}

TEST(CommandLine, DoctorChecksTheMachineOrARecipe) {
  EXPECT_EQ(parsed({"doctor"})["check"], "");
  const Line line = parsed({"doctor", "determinism", "a=1", "classify", "--steps", "7", "b=2"});
  EXPECT_EQ(line["check"], "determinism");
  EXPECT_EQ(line.recipe().name, "classify");
  EXPECT_EQ(line.recipe().overrides, (Words{"a=1", "b=2"}));
  EXPECT_EQ(line["--steps"], "7");
  EXPECT_EQ(parsed({"doctor", "determinism", "classify"})["--steps"], "3");
  EXPECT_EQ(parsed({"doctor", "memory"})["check"], "memory");
  EXPECT_EQ(error_of({"doctor", "determinism", "a=1"}),
            "E0501: no recipe given | give its name or file, as in `retort doctor determinism "
            "classify`");
  EXPECT_THAT(error_of({"doctor", "determinism", "classify", "--steps", "0"}),
              testing::StartsWith("E0501: --steps"));
  EXPECT_THAT(error_of({"doctor", "classify"}), testing::StartsWith("E0501: check"));
}

TEST(CommandLine, EveryVerbWithARecipeAcceptsStrict) {
  for (const Command* command : all_commands()) {
    const Invocation verb = command->declare();
    if (!verb.recipe || verb.action) continue;
    const std::string name(command->name);
    EXPECT_TRUE(parsed({name, "classify", "--strict"}).recipe().strict) << name;
    EXPECT_FALSE(parsed({name, "classify"}).recipe().strict) << name;
  }
  EXPECT_TRUE(parsed({"config", "show", "classify", "--strict"}).recipe().strict);
}

TEST(CommandLine, RecipeMayFollowOverrides) {
  const Line line = parsed({"run", "a=1", "~b", "classify", "+c=2"});
  EXPECT_EQ(line.recipe().name, "classify");
  EXPECT_EQ(line.recipe().overrides, (Words{"a=1", "~b", "+c=2"}));
}

TEST(CommandLine, AcceptsHydrasShortFlags) {
  const Line line =
      parsed({"run", "a=1", "-cn", "classify", "-cp=conf", "b=2", "-cd", "more", "-cd", "most"});
  EXPECT_EQ(line.recipe().name, "classify");
  EXPECT_EQ(line.recipe().config_path, "conf");
  EXPECT_EQ(line.recipe().config_dirs, (Words{"more", "most"}));
  EXPECT_EQ(line.recipe().overrides, (Words{"a=1", "b=2"}));
}

TEST(CommandLine, PathWithAnEqualSignIsARecipe) {
  const TemporaryFolder folder;
  folder.write("lr=1/recipe.yaml", "a: 1\n");
  const std::string file = (folder.path() / "lr=1/recipe.yaml").string();
  EXPECT_EQ(parsed({"run", file}).recipe().name, file);
}

TEST(CommandLine, UnknownVerbSuggestsTheNearestVerb) {
  EXPECT_EQ(error_of({"rum"}), "E0502: unknown verb 'rum' | did you mean 'run'?");
  EXPECT_EQ(error_of({"frobnicate"}),
            "E0502: unknown verb 'frobnicate' | `retort --help` lists the verbs");
}

TEST(CommandLine, MissingVerbIsAUsageError) {
  EXPECT_EQ(error_of({}), "E0501: no verb given | `retort --help` lists the verbs");
}

TEST(CommandLine, UnknownFlagSuggestsTheNearestFlag) {
  EXPECT_EQ(error_of({"run", "classify", "--smoek"}),
            "E0501: The following argument was not expected: --smoek | did you mean '--smoke'?");
}

TEST(CommandLine, UnknownFlagsAreSuggestedAsOverrides) {
  EXPECT_EQ(error_of({"run", "classify", "--lr", "2e-5", "--save_iter", "-1", "--no_amp", "a=1"}),
            "E0501: The following arguments were not expected: --no_amp --save_iter --lr | "
            "write settings as key=value: lr=2e-5 save_iter=-1 no_amp=true");
  EXPECT_EQ(error_of({"run", "classify", "--set", "train.epochs=3"}),
            "E0501: The following argument was not expected: --set | write settings as key=value: "
            "train.epochs=3");
  EXPECT_EQ(error_of({"run", "classify", "--batch-size=8"}),
            "E0501: The following argument was not expected: --batch-size=8 | write settings as "
            "key=value: batch_size=8");
  EXPECT_EQ(error_of({"stages", "--lr=1"}),
            "E0501: The following argument was not expected: --lr=1 | `retort stages --help` shows "
            "how it is used");
}

TEST(CommandLine, MissingRecipeShowsAnExample) {
  EXPECT_EQ(error_of({"run"}),
            "E0501: no recipe given | give its name or file, as in `retort run classify`");
  EXPECT_EQ(error_of({"graph", "a=1"}),
            "E0501: no recipe given | give its name or file, as in `retort graph classify`");
}

TEST(CommandLine, UnknownFormatIsRejected) {
  EXPECT_THAT(error_of({"graph", "a", "--format", "png"}),
              testing::StartsWith("E0501: --format: png not in"));
}

TEST(CommandLine, EveryVerbHasHelpWithAnExample) {
  const std::string overview = help_of({"--help"});
  for (const Command* command : all_commands()) {
    EXPECT_THAT(overview, testing::HasSubstr(std::string(command->summary)));
    const std::string help = help_of({std::string(command->name), "--help"});
    EXPECT_THAT(help, testing::HasSubstr("Example: " + std::string(command->example)));
    EXPECT_THAT(std::string(command->example),
                testing::StartsWith("retort " + std::string(command->name)));
    EXPECT_THAT(help, testing::HasSubstr("--json"));
  }
}

TEST(CommandLine, EveryExampleParses) {
  for (const Command* command : all_commands()) {
    std::vector<std::string> words;
    std::istringstream example{std::string(command->example)};
    for (std::string word; example >> word;) words.push_back(word);
    words.erase(words.begin());
    EXPECT_EQ(parsed(words).verb(), command->name);
  }
}

/// Every parameter with a summary or name that mentions writing must be declared as an output.
TEST(CommandLine, EveryOutputFlagRejectsUrls) {
  const std::string address = "http://me:swordfish@host/x";
  int count = 0;
  for (const Command* command : all_commands()) {
    const Invocation verb = command->declare();
    for (const Parameter& parameter : verb.parameters) {
      const std::string name = parameter.name.substr(parameter.name.rfind(',') + 1);
      const bool says_so = name == "--out" ||
                           parameter.summary.find(" to write") != std::string::npos ||
                           parameter.summary.find(" draw ") != std::string::npos ||
                           parameter.summary.starts_with("Draw ");
      EXPECT_EQ(parameter.is_written, says_so) << command->name << ' ' << parameter.name;
      if (!parameter.is_written) continue;
      ++count;
      Words words = {std::string(command->name)};
      for (const Parameter& other : verb.parameters)
        if (other.required && !other.is_flag()) words.push_back("make");
      if (verb.recipe) words.push_back("classify");
      if (parameter.is_flag()) words.push_back(name);
      words.push_back(address);
      const std::string error = error_of(words);
      EXPECT_EQ(error, "E0501: " + parameter.name +
                           ": 'http://me:***@host/x' is a URL, not a file or folder | write to a "
                           "local file or folder, then copy it to the URL")
          << command->name;
    }
  }
  EXPECT_EQ(count, 11);
}

}  // namespace
}  // namespace runner
