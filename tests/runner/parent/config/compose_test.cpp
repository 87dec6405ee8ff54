#include "runner/parent/config/compose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/config/yaml_writer.h"
#include "tests/support/fake_recipe_keys.h"
#include "tests/support/memory_file_system.h"

namespace runner {
namespace {

using testing::ElementsAre;

/// A recipe "a" and the schemas' answers about its keys.
class Composing : public testing::Test {
 protected:
  Composer open(std::vector<std::string> overrides = {}) {
    return *Composer::open({"a", std::move(overrides), {"recipes"}}, files, keys, sources);
  }
  /// The whole recipe, or the error messages, one per line.
  std::string validated(std::vector<std::string> overrides = {}) {
    Composer composer = open(std::move(overrides));
    const auto composition = composer.compose_once();
    if (!composition) return messages(composition.errors());
    const auto recipe = composer.validated(*composition);
    return recipe ? write_yaml(*recipe) : messages(recipe.errors());
  }
  static std::string messages(const Diagnostics& errors) {
    std::string text;
    for (const Diagnostic& error : errors) text += error.message + '\n';
    return text;
  }
  static Diagnostic wrong(const std::string& pointer) {
    return {ErrorCode::kWrongType, {}, pointer, "wrong at " + pointer, ""};
  }

  MemoryFileSystem files;
  FakeRecipeKeys keys;
  Sources sources;
};

TEST_F(Composing, RecipeIsValidatedOnceAndHasItsDefaults) {
  files.files = {{"recipes/a.yaml", "schema: 1\nb: 2\n"}};
  keys.defaults = {{"seed", Value{std::int64_t{7}}}};
  EXPECT_EQ(validated({"b=3"}), "schema: 1\nb: 3\nseed: 7\n");
  EXPECT_EQ(keys.validated, 1);
}

TEST_F(Composing, SchemaErrorsAreReportedWithOverrideErrors) {
  files.files = {{"recipes/a.yaml", "schema: 1\nb: 2\n"}};
  keys.errors = {wrong("/b")};
  EXPECT_EQ(validated({"nosuch=1"}), "unknown key 'nosuch'\nwrong at /b\n");
}

TEST_F(Composing, SchemaErrorsOfMissingValuesAreOmitted) {
  files.files = {{"recipes/a.yaml", "schema: 1\nb: '?\?\?'\nc: {kind: '?\?\?', d: 1}\ne: 1\n"}};
  keys.errors = {wrong("/b"), wrong("/c/d"), wrong("/e")};
  EXPECT_EQ(validated(), "'b' must be given\n'c.kind' must be given\nwrong at /e\n");
}

TEST_F(Composing, SchemaErrorsAreReportedWithInterpolationErrors) {
  files.files = {{"recipes/a.yaml", "schema: 1\nb: ${nosuch}\ne: 1\n"}};
  keys.errors = {wrong("/e")};
  EXPECT_THAT(validated(), testing::AllOf(testing::HasSubstr("wrong at /e"),
                                          testing::HasSubstr("there is no 'nosuch'")));
}

TEST_F(Composing, DocumentWithoutASchemaIsResolvedUnchecked) {
  files.files = {{"recipes/a.yaml", "b: 2\nc: ${b}\n"}};
  keys.errors = {wrong("/b")};
  keys.defaults = {{"d", Value{std::int64_t{7}}}};
  Composer composer = open();
  const auto composition = composer.compose_once();
  ASSERT_TRUE(composition);
  EXPECT_EQ(write_yaml(*composer.resolve(*composition)), "b: 2\nc: 2\n");
  EXPECT_EQ(keys.validated, 0);
  EXPECT_EQ(messages(open({"d=1"}).compose_once().errors()), "unknown key 'd'\n");
  EXPECT_EQ(messages(composer.validated(*composition).errors()), "wrong at /b\n");
}

TEST_F(Composing, AlternativeKeyNameIsAccepted) {
  files.files = {{"recipes/a.yaml", "schema: 1\ndevice: {long_wait: 1, long_look: 2}\n"},
                 {"recipes/both.yaml", "schema: 1\ndevice: {long_wait: 1, wait: 3}\n"}};
  keys.names = {{"device", "long_wait", "wait"}, {"device", "long_look", "look"}};
  EXPECT_EQ(validated(), "schema: 1\ndevice:\n  wait: 1\n  look: 2\n");
  EXPECT_EQ(validated({"device.long_wait=5", "device={long_look: 6}"}),
            "schema: 1\ndevice:\n  wait: 5\n  look: 6\n");
  const auto both = Composer::open({"both", {}, {"recipes"}}, files, keys, sources)->compose_once();
  ASSERT_TRUE(both);
  EXPECT_EQ(write_yaml(both->unresolved), "schema: 1\ndevice:\n  long_wait: 1\n  wait: 3\n");
}

TEST_F(Composing, AdviceComesFromTheSchemas) {
  files.files = {{"recipes/a.yaml", "schema: 1\ntrain: {kind: b}\naliases: {speed: train.rate}\n"}};
  const auto help_for = [&](const std::string& override) {
    return open({override}).compose_once().errors().front().help;
  };
  EXPECT_EQ(help_for("train.nosuch=1"), "to add it: +train.nosuch=1");
  keys.accepts_more = false;
  EXPECT_EQ(help_for("train.nosuch=1"), "");
  keys.defaults = {{"train.epochs", Value{}}, {"train.batch", Value{}}};
  EXPECT_EQ(help_for("train.epoch=1"), "did you mean 'epochs'?");
  EXPECT_EQ(help_for("train.nosuch=1"), "`retort explain b` lists its keys");
  EXPECT_EQ(help_for("sped=1"), "did you mean 'speed'?");
  keys.kinds = {"sgd", "adam"};
  EXPECT_EQ(help_for("train.nosuch=1"), "leave it out, or choose another kind for 'train'");
}

}  // namespace
}  // namespace runner
