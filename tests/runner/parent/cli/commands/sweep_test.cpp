#include "runner/parent/cli/prepare_sweep.h"

#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/config/override.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

Result<PreparedSweep> swept(std::vector<std::string> overrides,
                            const std::string& params = "vars.x: [1, 2]",
                            const std::string& stages = "") {
  static const SchemaSet& schemas = shipped_schemas();
  static Sources sources;
  const TemporaryFolder folder;
  folder.write(
      "a.yaml",
      "schema: 1\ndata: {kind: data.image_folder, root: photos}\nvars: {x: 1}\nsweep: {params: {" +
          params + "}}\n" + stages);
  NamedRecipe named;
  named.name = (folder.path() / "a.yaml").string();
  named.overrides = std::move(overrides);
  return prepare_sweep(named, schemas, sources);
}

TEST(PreparedSweep, TrialHasAResolvedRecipeAndItsHash) {
  const auto sweep = swept({});
  ASSERT_TRUE(sweep) << sweep.errors().front().message;
  ASSERT_EQ(sweep->jobs.size(), 2u);
  EXPECT_EQ(std::get<std::int64_t>(at_key(sweep->jobs[1].recipe, "vars.x")->data), 2);
  EXPECT_FALSE(sweep->jobs[1].recipe.find("sweep"));
  EXPECT_TRUE(at_key(sweep->jobs[1].recipe, "data.batch_size") ||
              at_key(sweep->jobs[1].recipe, "data.image_size"));
}

TEST(PreparedSweep, SameRecipeHasTheSameHashHoweverItIsWritten) {
  const auto one = swept({}), other = swept({"~sweep", "vars.x=range(1,3)", "seed=0"});
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->jobs[0].hash, other->jobs[0].hash);
  EXPECT_NE(one->jobs[0].hash, one->jobs[1].hash);
}

TEST(PreparedSweep, SecretValuesAreNotShown) {
  for (const char* params : {"+vars.api_key: 'geheim,other'", "+vars.api_key: [geheim, other]"}) {
    const auto sweep = swept({}, params);
    ASSERT_TRUE(sweep) << sweep.errors().front().message;
    ASSERT_EQ(sweep->jobs.size(), 2u);
    EXPECT_EQ(override_text(sweep->jobs[0].overrides[0]), "+vars.api_key=***");
    EXPECT_EQ(*at_key(sweep->jobs[0].recipe, "vars.api_key")->reveal(), "geheim");
  }
}

TEST(PreparedSweep, RecipeCanZipKeysWithoutTheOverrideGrammar) {
  const auto sweep = swept({}, "rows: {zip: {vars.x: [1, 'a,b'], seed: [3, 4]}}");
  ASSERT_TRUE(sweep) << sweep.errors().front().message;
  ASSERT_EQ(sweep->jobs.size(), 2u);
  EXPECT_EQ(*at_key(sweep->jobs[1].recipe, "vars.x")->text(), "a,b");
  EXPECT_EQ(std::get<std::int64_t>(at_key(sweep->jobs[1].recipe, "seed")->data), 4);
  const auto unequal = swept({}, "rows: {zip: {vars.x: [1, 2], seed: [3]}}");
  ASSERT_FALSE(unequal);
  EXPECT_EQ(unequal.errors().front().message, "'seed' has 1 values and 'vars.x' has 2");
}

TEST(PreparedSweep, RecipeDrawsSamples) {
  const auto sweep = swept({"sweep.samples=3"}, "vars.x: 'interval(0,1)', seed: [1, 2]");
  ASSERT_TRUE(sweep) << sweep.errors().front().message;
  EXPECT_EQ(sweep->jobs.size(), 6u);
  const auto none = swept({"sweep.samples=0"}, "vars.x: 'interval(0,1)'");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.errors().front().code, ErrorCode::kOutOfRange) << none.errors().front().message;
}

TEST(PreparedSweep, TrialsAreComparedBeforeTheShortestTrainingEnds) {
  const auto trained = [](std::vector<std::string> overrides) {
    return swept(std::move(overrides), "vars.x: [1, 2]",
                 "model: {kind: model.clip_vision}\nmemory: {kind: memory.policy}\ntrain: {kind: "
                 "train.supervised, epochs: 9, monitor: accuracy}\n");
  };
  EXPECT_EQ(trained({})->asha, std::nullopt);
  const auto sweep = trained({"sweep.asha={factor:4}"});
  ASSERT_TRUE(sweep) << sweep.errors().front().message;
  EXPECT_EQ(sweep->asha,
            (AshaOptions{.metric = "validation/accuracy", .first = 1, .factor = 4, .last = 8}))
      << "the metric that the training monitors";
  const auto last = trained({"sweep.asha={metric:validation/loss,first:2,last:5}"});
  ASSERT_TRUE(last) << last.errors().front().message;
  EXPECT_EQ(last->asha,
            (AshaOptions{.metric = "validation/loss", .first = 2, .factor = 3, .last = 5}));
  const auto bad = trained({"sweep.asha={factor:1}"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.errors().front().pointer, "/sweep/asha/factor");
}

TEST(PreparedSweep, TrialsWithoutTheComparedMetricAreRejected) {
  const auto nothing = swept({"sweep.asha={factor:4}"});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.errors().front().pointer, "/sweep/asha/metric");
  EXPECT_EQ(nothing.errors().front().message,
            "sweep.asha compares trials while they train, but these trials do not train anything");
  const auto unknown = swept({"sweep.asha={metric:validation/loss}"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.errors().front().message,
            "no trial can have the metric 'validation/loss' while it trains");
}

}  // namespace
}  // namespace runner
