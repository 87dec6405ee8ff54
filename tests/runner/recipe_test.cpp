#include "runner/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_schemas.h"

namespace runner {
namespace {

using testing::ElementsAre;

TEST(Recipe, ReadsReservedKeys) {
  FakeRecipe fake;
  const auto recipe = fake.recipe(
      "name: a\nseed: 7\nthreads: 3\ndevice: {select: 'cuda:1'}\nrun: {dir: out/x}\ndata: {kind: data.list}\n");
  ASSERT_THAT(complaints(recipe), ElementsAre());
  EXPECT_EQ(recipe->name, "a");
  EXPECT_EQ(recipe->seed, 7u);
  EXPECT_EQ(recipe->threads, 3);
  EXPECT_EQ(recipe->device, "cuda:1");
  EXPECT_EQ(recipe->run_dir, "out/x");
}

TEST(Recipe, DefaultsComeFromTheSchema) {
  FakeRecipe fake;
  const auto recipe = fake.recipe("data: {kind: data.folder}\n");
  ASSERT_THAT(complaints(recipe), ElementsAre());
  EXPECT_EQ(recipe->name, "run");
  EXPECT_EQ(recipe->seed, 0u);
  EXPECT_EQ(recipe->threads, std::nullopt);
  EXPECT_EQ(recipe->device, "cpu");
  EXPECT_EQ(recipe->run_dir, "");
  EXPECT_EQ(*recipe->stages[0].options.find("root")->text(), "images");
  EXPECT_EQ(*recipe->resolved.find("data")->find("root")->text(), "images");
}

TEST(Recipe, IntegersMayBeWrittenAsNumbers) {
  FakeRecipe fake;
  const auto recipe = fake.recipe("seed: 3.0\nthreads: 2.0\ndata: {kind: data.list}\n");
  ASSERT_THAT(complaints(recipe), ElementsAre());
  EXPECT_EQ(recipe->seed, 3u);
  EXPECT_EQ(recipe->threads, 2);
}

TEST(Recipe, EveryMappingThatIsNotReservedIsAStageInTheOrderWritten) {
  FakeRecipe fake;
  const auto recipe =
      fake.recipe("train: {kind: train.fit}\nvars: {kind: data.list}\nmodel: {kind: model.small}\ndata: {kind: data.list}\n");
  ASSERT_THAT(complaints(recipe), ElementsAre());
  std::vector<std::string> stages;
  for (const StageSpec& stage : recipe->stages) {
    stages.push_back(stage.name + " " + stage.kind + " " + std::to_string(stage.name_where.line));
  }
  EXPECT_THAT(stages, ElementsAre("train train.fit 2", "model model.small 4", "data data.list 5"));
}

TEST(Recipe, WithoutAStageIsRefused) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.recipe("seed: 1\n")),
              ElementsAre("1:1 E0305 the recipe has no stage [] | add one, such as data: {kind: data.image_folder, ...}; "
                          "'retort stages' lists the kinds"));
}

TEST(Recipe, ErrorsOfTheSchemaComeBackAllAtOnce) {
  FakeRecipe fake;
  const auto recipe = fake.recipe("seed: -1\ntrain: {kind: train.fit, epoch: 2}\n");
  ASSERT_FALSE(recipe);
  EXPECT_EQ(recipe.errors().size(), 2u);
}

TEST(Recipe, SecretsStayMarked) {
  FakeRecipe fake;
  auto value = read_yaml(fake.sources.add("r", "schema: 1\ndata: {kind: data.folder, root: abc}\n"));
  value->find("data")->find("root")->secret_as = "${oc.env:TOKEN}";
  const auto recipe = make_recipe(*value, fake.schemas);
  ASSERT_THAT(complaints(recipe), ElementsAre());
  EXPECT_EQ(recipe->stages[0].options.find("root")->secret_as, "${oc.env:TOKEN}");
  EXPECT_EQ(recipe->resolved.find("data")->find("root")->secret_as, "${oc.env:TOKEN}");
}

TEST(Recipe, SecretsCannotNameARunOrItsFolder) {
  FakeRecipe fake;
  auto value = read_yaml(fake.sources.add("r", "schema: 1\nname: abc\nrun: {dir: abc}\ndata: {kind: data.list}\n"));
  value->find("name")->secret_as = "${oc.env:TOKEN}";
  value->find("run")->find("dir")->secret_as = "${oc.env:KEY}";
  EXPECT_THAT(complaints(make_recipe(*value, fake.schemas)),
              ElementsAre("2:7 E0311 a secret cannot stand here: this is shown and recorded [/name] | give "
                          "${oc.env:TOKEN} another name, without TOKEN, KEY, SECRET or PASSWORD, if it is no secret",
                          "3:12 E0311 a secret cannot stand here: this is shown and recorded [/run/dir] | give "
                          "${oc.env:KEY} another name, without TOKEN, KEY, SECRET or PASSWORD, if it is no secret"));
}

}  // namespace
}  // namespace runner
