#include "runner/parent/run/recipe_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const SchemaSet& schemas() {
  static const SchemaSet& all = shipped_schemas();
  return all;
}

/// The messages of `check` for the quick start without and with `overrides`.
template <typename Check>
std::vector<std::string> said(std::vector<std::string> overrides, const Check& check) {
  Sources sources;
  NamedRecipe named;
  named.name = RETORT_SOURCE_DIR "/experiments/quickstart.yaml";
  named.config_dirs = {RETORT_SOURCE_DIR};
  const auto recipe = [&] {
    auto prepared = prepare(named, schemas(), sources);
    EXPECT_TRUE(prepared) << prepared.errors().at(0).message;
    return prepared->recipe.resolved;
  };
  const Value before = recipe();
  named.overrides = std::move(overrides);
  std::vector<std::string> result;
  for (const Diagnostic& error : check(before, recipe()))
    result.push_back(error.pointer + ": " + error.message);
  return result;
}

/// The messages about continuing a run with these overrides.
std::vector<std::string> said(std::vector<std::string> overrides, bool force = false) {
  return said(std::move(overrides), [&](const Value& before, const Value& after) {
    return check_change(before, after, force, schemas());
  });
}

/// The messages about evaluating a trained run with these overrides.
std::vector<std::string> said_of_trained(std::vector<std::string> overrides) {
  return said(std::move(overrides), check_change_of_trained);
}

TEST(RecipeChange, SameRecipeMayContinue) { EXPECT_THAT(said({}), IsEmpty()); }

TEST(RecipeChange, ChangesThatKeepTheBitsAreSafe) {
  EXPECT_THAT(
      said({"data.loader.workers=3", "train.log_every=7", "name=other", "evaluate.batch_size=3",
            "run.dir=x", "memory.budget=1GiB", "memory.memory_fraction=0.5"}),
      IsEmpty());
}

TEST(RecipeChange, ChangesThatMixTwoRecipesNeedForce) {
  EXPECT_THAT(
      said({"train.epochs=77", "threads=1"}),
      ElementsAre(
          "/train/epochs: 'train.epochs' was 8 and is now 77: the schedule 'one_cycle' spans all "
          "epochs, so the epochs completed so far would have had different learning rates",
          "/threads: 'threads' was \"auto\" and is now 1"));
  EXPECT_THAT(said({"train.epochs=77", "threads=1"}, true), IsEmpty());
}

TEST(RecipeChange, MoreEpochsAreSafeIfTheScheduleDoesNotSpanThem) {
  const auto with = [](const std::string& schedule) {
    return said({"train.schedule=replace(" + schedule + ")"},
                [](const Value&, const Value& before) {
                  Value after = before;
                  after.find("train")->find("epochs")->data = std::int64_t{300};
                  return check_change(before, after, /*force=*/false, schemas());
                });
  };
  for (const char* safe : {"{kind: constant}", "{kind: exponential, gamma: 0.9}",
                           "{kind: step, step_size: 3}", "{kind: multi_step, milestones: [2]}",
                           "{kind: plateau}", "{kind: cosine_restarts, first_period: 2}"}) {
    EXPECT_THAT(with(safe), IsEmpty()) << safe;
  }
  for (const char* kind : {"cosine", "one_cycle", "warmup_cosine", "warmup_linear"}) {
    const std::string more = std::string(kind).starts_with("warmup") ? ", warmup_steps: 3" : "";
    EXPECT_THAT(with("{kind: " + std::string(kind) + more + "}"),
                ElementsAre(testing::HasSubstr("the schedule '" + std::string(kind) +
                                               "' spans all epochs")));
  }
}

TEST(RecipeChange, ChangesThatBreakTheSavedStateAreRejected) {
  for (const bool force : {false, true}) {
    EXPECT_THAT(
        said({"seed=77", "train.batch_size=3"}, force),
        ElementsAre("/train/batch_size: 'train.batch_size' was 32 and is now 3: the saved state is "
                    "incompatible with this change",
                    "/seed: 'seed' was 42 and is now 77: the saved state is incompatible with this "
                    "change"));
    EXPECT_THAT(
        said({"train.optimizer.kind=adam"}, force).front(),
        testing::StartsWith(
            "/train/optimizer/kind: 'train.optimizer.kind' was \"adamw\" and is now \"adam\": "));
  }
}

TEST(RecipeChange, ModelOptionsExceptDropoutAreRejected) {
  EXPECT_THAT(said({"model.num_hidden_layers=3"}, true).size(), 1u);
  EXPECT_THAT(said({"model.dropout=0.5"}).size(), 1u);
  EXPECT_THAT(said({"model.dropout=0.5"}, true), IsEmpty());
}

TEST(ChangeOfTrained, DataMetricsAndEnvironmentMayChange) {
  EXPECT_THAT(said_of_trained({"data.root=x", "data.split.test=0.05", "evaluate.top_k=[1,3]",
                               "memory.micro_batch=4", "device=cpu", "threads=2", "run.dir=x",
                               "name=other", "+again={kind: evaluate.classification}"}),
              IsEmpty());
}

TEST(ChangeOfTrained, ModelTrainingAndSeedMustNotChange) {
  EXPECT_THAT(
      said_of_trained({"model.hidden_size=64", "train.epochs=9", "seed=77"}),
      testing::UnorderedElementsAre(
          "/model/hidden_size: 'model.hidden_size' was 128 and is now 64: the trained weights are "
          "incompatible with this change",
          "/train/epochs: 'train.epochs' was 8 and is now 9: the training is done, so this change "
          "has no effect",
          "/seed: 'seed' was 42 and is now 77: the training is done, so this change has no "
          "effect"));
}

}  // namespace
}  // namespace runner
