#include "runner/parent/cli/recipe_help.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/command_line.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

class RecipeHelp : public testing::Test {
 protected:
  RecipeHelp() {
    folder_.write("recipes/petals.yaml", R"(# yaml-language-server: $schema=x
#
# Tells petals apart.
#
#   retort run petals
schema: 1
defaults: [{data: rose}, {train/optimizer: null}, _self_]
aliases:
  lr: train.optimizer.learning_rate
  both: [train.epochs, seed]
  speed: {fast: [train.epochs=1, seed=2], any: []}
  a_name_that_is_longer_than_most: seed
  gone: {instead: "do without it"}
)");
    folder_.write("recipes/data/rose.yaml", "kind: data.image_folder\n");
    folder_.write("recipes/data/lily.yaml", "kind: data.image_folder\n");
    folder_.write("recipes/train/optimizer/sgd.yaml", "kind: sgd\n");
    folder_.write("recipes/shape/round.yaml", "a: 1\n");
  }

  std::string help(std::vector<std::string> overrides) {
    NamedRecipe named;
    named.config_dirs = {folder_.path().string()};
    named.name = (folder_ / "recipes/petals.yaml").string();
    named.overrides = std::move(overrides);
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    exit_ = help_about_recipe(named, console);
    std::string text = out.str();
    for (std::size_t at; (at = text.find(folder_.path().string())) != text.npos;)
      text.erase(at, folder_.path().string().size());
    return text;
  }

  TemporaryFolder folder_;
  ExitCode exit_{};
};

TEST_F(RecipeHelp, ShowsHeaderGroupsAndAliases) {
  EXPECT_THAT(help({}), testing::StartsWith(R"(
Recipe /recipes/petals.yaml
  Tells petals apart.

    retort run petals

Groups, GROUP=OPTION; * marks the chosen option:
  data                      )"));
  EXPECT_THAT(help({}),
              testing::HasSubstr(
                  "  train/optimizer           adafactor, adam, adamw, lamb, lion, muon, sgd\n"));
  EXPECT_THAT(help({}), testing::HasSubstr("Groups that can be added, +GROUP=OPTION:\n"));
  EXPECT_THAT(help({}), testing::HasSubstr("  shape                     round\n"));
  EXPECT_THAT(help({}), testing::EndsWith(R"(
Aliases:
  lr                        train.optimizer.learning_rate
  both                      train.epochs, seed
  speed                     fast: train.epochs=1 seed=2, any: nothing
  a_name_that_is_longer_than_most
                            seed
  gone                      not supported: do without it
  epochs                    train.epochs
  batch_size                train.batch_size
)"));
  EXPECT_EQ(exit_, ExitCode::kDone);
}

TEST_F(RecipeHelp, MarkedChoiceReflectsTheOverrides) {
  EXPECT_THAT(help({}), testing::HasSubstr(" rose*"));
  EXPECT_THAT(help({"data=lily", "broken="}), testing::HasSubstr(" lily*"));
}

TEST(RecipeHelpLine, RecipeAndHelpFlagCanBeInAnyOrder) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", "petals", "a=1", "--help"},
        {"graph", "--help", "a=1", "petals"},
        {"config", "show", "petals", "-h", "a=1"}}) {
    const auto parsed = parse_command_line(words);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(std::get<HelpText>(*parsed).about.name, "petals");
    EXPECT_EQ(std::get<HelpText>(*parsed).about.overrides, std::vector<std::string>{"a=1"});
  }
}

TEST(RecipeHelpLine, UnknownRecipeIsAnError) {
  NamedRecipe named;
  named.name = "classifi";
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  EXPECT_EQ(help_about_recipe(named, console), ExitCode::kMissingInput);
  EXPECT_THAT(err.str(), testing::HasSubstr("there is no recipe 'classifi'"));
}

}  // namespace
}  // namespace runner
