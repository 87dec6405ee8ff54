#include "runner/run/recipe_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/prepare.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// What is said of going on with the quick start under `overrides`.
std::vector<std::string> said(std::vector<std::string> overrides, bool force = false) {
  static const SchemaSet schemas = shipped_schemas();
  Sources sources;
  Arguments arguments;
  arguments.recipe = RETORT_SOURCE_DIR "/experiments/quickstart.yaml";
  arguments.config_dirs = {RETORT_SOURCE_DIR};
  const auto recipe = [&] {
    auto prepared = prepare(arguments, schemas, sources);
    EXPECT_TRUE(prepared) << prepared.errors().at(0).message;
    return prepared->recipe.resolved;
  };
  const Value before = recipe();
  arguments.overrides = std::move(overrides);
  std::vector<std::string> result;
  for (const Diagnostic& error : check_change(before, recipe(), force, schemas))
    result.push_back(error.pointer + ": " + error.message);
  return result;
}

TEST(RecipeChange, TheSameRecipeMayGoOn) { EXPECT_THAT(said({}), IsEmpty()); }

TEST(RecipeChange, WhatLeavesTheBitsAloneIsSafe) {
  EXPECT_THAT(said({"data.loader.workers=3", "train.log_every=7", "name=other", "evaluate.batch_size=3", "run.dir=x"}),
              IsEmpty());
}

TEST(RecipeChange, WhatMakesAResultOfNoRecipeNeedsForce) {
  EXPECT_THAT(said({"train.epochs=77", "threads=1"}),
              ElementsAre("/train/epochs: 'train.epochs' was 8 and is now 77",
                          "/threads: 'threads' was \"auto\" and is now 1"));
  EXPECT_THAT(said({"train.epochs=77", "threads=1"}, true), IsEmpty());
}

TEST(RecipeChange, WhatTheSavedStateDoesNotFitIsRefused) {
  for (const bool force : {false, true}) {
    EXPECT_THAT(said({"seed=77", "train.batch_size=3"}, force),
                ElementsAre("/train/batch_size: 'train.batch_size' was 32 and is now 3: what the run has saved does "
                            "not fit that",
                            "/seed: 'seed' was 42 and is now 77: what the run has saved does not fit that"));
    EXPECT_THAT(said({"train.optimizer.kind=sgd"}, force).front(),
                testing::StartsWith("/train/optimizer/kind: 'train.optimizer.kind' was \"adamw\" and is now \"sgd\": "));
  }
}

TEST(RecipeChange, EveryOptionOfAModelIsRefusedButItsDropout) {
  EXPECT_THAT(said({"model.num_hidden_layers=3"}, true).size(), 1u);
  EXPECT_THAT(said({"model.dropout=0.5"}).size(), 1u);
  EXPECT_THAT(said({"model.dropout=0.5"}, true), IsEmpty());
}

}  // namespace
}  // namespace runner
