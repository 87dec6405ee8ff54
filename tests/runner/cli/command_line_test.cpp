#include "runner/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/cli/command.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

Arguments parsed(std::vector<std::string> words) {
  const auto result = parse_command_line(words);
  if (!result) {
    ADD_FAILURE() << result.errors().front().message;
    return {};
  }
  return std::get<Arguments>(*result);
}

std::string error_of(std::vector<std::string> words) {
  const auto result = parse_command_line(words);
  if (result) return "no error";
  const Diagnostic& error = result.errors().front();
  return name(error.code) + ": " + error.message + (error.help.empty() ? "" : " | " + error.help);
}

std::string help_of(std::vector<std::string> words) {
  const auto result = parse_command_line(words);
  return result && std::holds_alternative<HelpText>(*result) ? std::get<HelpText>(*result).text : "no help";
}

TEST(CommandLine, FlagsAndOverridesInAnyOrder) {
  const Arguments arguments =
      parsed({"run", "--smoke", "classify", "a=-1", "-q", "~b", "+c={x: [1, 2]}", "--only", "train", "d='x y'"});
  EXPECT_EQ(arguments.verb, "run");
  EXPECT_EQ(arguments.recipe, "classify");
  EXPECT_EQ(arguments.overrides, (std::vector<std::string>{"a=-1", "~b", "+c={x: [1, 2]}", "d='x y'"}));
  EXPECT_EQ(arguments.only, "train");
  EXPECT_TRUE(arguments.smoke);
  EXPECT_TRUE(arguments.quiet);
}

TEST(CommandLine, PlanTakesABudgetAndADevice) {
  const Arguments arguments = parsed({"plan", "classify", "--gpu", "NVIDIA L4", "--budget", "8GiB", "--svg", "a.svg",
                                      "--detailed-exitcode", "--no-reuse", "--only", "train", "lr=1"});
  EXPECT_EQ(arguments.recipe, "classify");
  EXPECT_EQ(arguments.gpu, "NVIDIA L4");
  EXPECT_EQ(arguments.budget, "8GiB");
  EXPECT_EQ(arguments.svg, "a.svg");
  EXPECT_EQ(arguments.only, "train");
  EXPECT_EQ(arguments.overrides, (std::vector<std::string>{"lr=1"}));
  EXPECT_TRUE(arguments.detailed_exitcode);
  EXPECT_TRUE(arguments.no_reuse);
}

TEST(CommandLine, CertifyTakesARecipe) {
  EXPECT_EQ(parsed({"certify", "classify", "--only", "train"}).only, "train");
  EXPECT_EQ(error_of({"certify"}), "E0501: no recipe is named | write its name or file: retort certify classify");
}

TEST(CommandLine, EvaluateTakesARunAndOverrides) {
  const Arguments arguments = parsed({"evaluate", "outputs/a", "data.root=x", "--checkpoint", "best", "device=cpu"});
  EXPECT_EQ(arguments.run_folder, "outputs/a");
  EXPECT_EQ(arguments.overrides, (std::vector<std::string>{"data.root=x", "device=cpu"}));
  EXPECT_EQ(arguments.checkpoint, "best");
}

TEST(CommandLine, DataFetchTakesFilesThatAreHere) {
  const Arguments arguments =
      parsed({"data", "fetch", "cub200", "--out", "there", "--url", "http://a", "--from-file", "a.tgz", "b.tgz"});
  EXPECT_EQ(arguments.subject, "fetch");
  EXPECT_EQ(arguments.what, "cub200");
  EXPECT_EQ(arguments.out, "there");
  EXPECT_EQ(arguments.url, "http://a");
  EXPECT_EQ(arguments.from_files, (std::vector<std::string>{"a.tgz", "b.tgz"}));
  EXPECT_EQ(parsed({"data", "fetch", "hf:a/b", "--file", "x.bin"}).files, std::vector<std::string>{"x.bin"});
}

TEST(CommandLine, PredictTakesARunAndPathsInAnyOrderWithFlags) {
  const Arguments arguments = parsed({"predict", "--top", "3", "outputs/a", "a.jpg", "--skip-corrupt", "b",
                                      "device=cpu", "--batch-size=8", "--out", "p.csv", "--node", "train.0"});
  EXPECT_EQ(arguments.run_folder, "outputs/a");
  EXPECT_EQ(arguments.paths, (std::vector<std::string>{"a.jpg", "b", "device=cpu"}));
  EXPECT_EQ(arguments.top, 3);
  EXPECT_EQ(arguments.batch_size, 8);
  EXPECT_EQ(arguments.out, "p.csv");
  EXPECT_EQ(arguments.node, "train.0");
  EXPECT_TRUE(arguments.skip_corrupt);
  EXPECT_EQ(error_of({"predict", "outputs/a"}),
            "E0501: paths is required | `retort predict --help` shows how it is used");
  EXPECT_THAT(error_of({"predict", "outputs/a", "b", "--top", "0"}), testing::StartsWith("E0501: --top: "));
}

TEST(CommandLine, ConfigDirTakesOneFolderEach) {
  const Arguments arguments = parsed({"validate", "--config-dir", "a", "classify", "--config-dir", "b", "x=1"});
  EXPECT_EQ(arguments.config_dirs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(arguments.overrides, (std::vector<std::string>{"x=1"}));
}

TEST(CommandLine, DoctorLooksAtTheMachineOrAtARecipe) {
  EXPECT_EQ(parsed({"doctor"}).subject, "");
  const Arguments arguments = parsed({"doctor", "determinism", "a=1", "classify", "--steps", "7", "b=2"});
  EXPECT_EQ(arguments.subject, "determinism");
  EXPECT_EQ(arguments.recipe, "classify");
  EXPECT_EQ(arguments.overrides, (std::vector<std::string>{"a=1", "b=2"}));
  EXPECT_EQ(arguments.steps, 7);
  EXPECT_EQ(parsed({"doctor", "determinism", "classify"}).steps, 3);
  EXPECT_EQ(parsed({"doctor", "memory"}).subject, "memory");
  EXPECT_EQ(error_of({"doctor", "determinism", "a=1"}),
            "E0501: no recipe is named | write its name or file: retort doctor determinism classify");
  EXPECT_THAT(error_of({"doctor", "determinism", "classify", "--steps", "0"}), testing::StartsWith("E0501: --steps"));
  EXPECT_THAT(error_of({"doctor", "classify"}), testing::StartsWith("E0501: check"));
}

TEST(CommandLine, EveryVerbWithARecipeMayBeStrict) {
  for (const char* verb : {"run", "validate", "graph"}) EXPECT_TRUE(parsed({verb, "classify", "--strict"}).strict);
  EXPECT_TRUE(parsed({"config", "show", "classify", "--strict"}).strict);
  EXPECT_FALSE(parsed({"validate", "classify"}).strict);
}

TEST(CommandLine, RecipeMayFollowOverrides) {
  const Arguments arguments = parsed({"run", "a=1", "~b", "classify", "+c=2"});
  EXPECT_EQ(arguments.recipe, "classify");
  EXPECT_EQ(arguments.overrides, (std::vector<std::string>{"a=1", "~b", "+c=2"}));
}

TEST(CommandLine, HydrasShortFlags) {
  const Arguments arguments =
      parsed({"run", "a=1", "-cn", "classify", "-cp=conf", "b=2", "-cd", "more", "-cd", "most"});
  EXPECT_EQ(arguments.recipe, "classify");
  EXPECT_EQ(arguments.config_path, "conf");
  EXPECT_EQ(arguments.config_dirs, (std::vector<std::string>{"more", "most"}));
  EXPECT_EQ(arguments.overrides, (std::vector<std::string>{"a=1", "b=2"}));
}

TEST(CommandLine, FileWhoseFolderHoldsAnEqualSignIsARecipe) {
  const TemporaryFolder folder;
  folder.write("lr=1/recipe.yaml", "a: 1\n");
  const std::string file = (folder.path() / "lr=1/recipe.yaml").string();
  EXPECT_EQ(parsed({"run", file}).recipe, file);
}

TEST(CommandLine, UnknownVerbSuggestsNearest) {
  EXPECT_EQ(error_of({"rum"}), "E0502: unknown verb 'rum' | did you mean 'run'?");
  EXPECT_EQ(error_of({"frobnicate"}), "E0502: unknown verb 'frobnicate' | `retort --help` lists the verbs");
}

TEST(CommandLine, NoVerbIsUsage) { EXPECT_EQ(error_of({}), "E0501: no verb given | `retort --help` lists the verbs"); }

TEST(CommandLine, UnknownFlagSuggestsNearest) {
  EXPECT_EQ(error_of({"run", "classify", "--smoek"}),
            "E0501: The following argument was not expected: --smoek | did you mean '--smoke'?");
}

TEST(CommandLine, FlagsOfAnotherProgramAreShownAsOverrides) {
  EXPECT_EQ(error_of({"run", "classify", "--lr", "2e-5", "--save_iter", "-1", "--no_amp", "a=1"}),
            "E0501: The following arguments were not expected: --no_amp --save_iter --lr | settings are written "
            "key=value: lr=2e-5 save_iter=-1 no_amp=true");
  EXPECT_EQ(error_of({"run", "classify", "--batch-size=8"}),
            "E0501: The following argument was not expected: --batch-size=8 | settings are written key=value: "
            "batch_size=8");
  EXPECT_EQ(error_of({"stages", "--lr=1"}),
            "E0501: The following argument was not expected: --lr=1 | `retort stages --help` shows how it is used");
}

TEST(CommandLine, MissingRecipeSaysHow) {
  EXPECT_EQ(error_of({"run"}), "E0501: no recipe is named | write its name or file: retort run classify");
  EXPECT_EQ(error_of({"graph", "a=1"}), "E0501: no recipe is named | write its name or file: retort graph classify");
}

TEST(CommandLine, FormatMustBeKnown) {
  EXPECT_THAT(error_of({"graph", "a", "--format", "svg"}), testing::StartsWith("E0501: --format: svg not in"));
}

TEST(CommandLine, EveryVerbHasHelpWithAnExample) {
  const std::string overview = help_of({"--help"});
  for (const Command& command : all_commands()) {
    EXPECT_THAT(overview, testing::HasSubstr(std::string(command.summary)));
    const std::string help = help_of({std::string(command.name), "--help"});
    EXPECT_THAT(help, testing::HasSubstr("Example: " + std::string(command.example)));
    EXPECT_THAT(std::string(command.example), testing::StartsWith("retort " + std::string(command.name)));
    EXPECT_THAT(help, testing::HasSubstr("--json"));
  }
}

TEST(CommandLine, EveryExampleParses) {
  for (const Command& command : all_commands()) {
    std::vector<std::string> words;
    std::istringstream example{std::string(command.example)};
    for (std::string word; example >> word;) words.push_back(word);
    words.erase(words.begin());
    EXPECT_EQ(parsed(words).verb, command.name);
  }
}

}  // namespace
}  // namespace runner
