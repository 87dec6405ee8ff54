#include "runner/parent/cli/commands/evaluate.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The data on which the quick start, trained on `trained_on`, is evaluated with `overrides`.
EvaluatedData taken(const std::string& trained_on, const std::vector<std::string>& overrides) {
  static const SchemaSet& schemas = shipped_schemas();
  Sources sources;
  NamedRecipe named;
  named.name = RETORT_SOURCE_DIR "/experiments/quickstart.yaml";
  named.config_dirs = {RETORT_SOURCE_DIR};
  const auto recipe = [&](std::vector<std::string> words) {
    named.overrides = std::move(words);
    auto prepared = prepare(named, schemas, sources);
    EXPECT_TRUE(prepared) << prepared.errors().at(0).message;
    return prepared->recipe.resolved;
  };
  const std::string root = "data.root='" + trained_on + "'";
  std::vector<std::string> after = {root};
  after.insert(after.end(), overrides.begin(), overrides.end());
  return data_to_evaluate(recipe({root}), recipe(after), overrides);
}

TEST(EvaluatedData, TrainingFolderIsSplitAsBefore) {
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{{}, {"data.root=./a/../a"}}) {
    const EvaluatedData data = taken("a", overrides);
    EXPECT_THAT(data.overrides, IsEmpty());
    ASSERT_EQ(data.lines.size(), 1U);
    EXPECT_THAT(data.lines[0], testing::EndsWith("a' is evaluated: data.split.test=0.1"));
  }
}

TEST(EvaluatedData, AllOfAnotherFolderIsEvaluated) {
  const EvaluatedData data = taken("a", {"data.root=b"});
  EXPECT_THAT(data.overrides, ElementsAre("data.split={train: 0, validation: 0, test: 1}"));
  EXPECT_THAT(data.lines,
              ElementsAre("data: all of 'b' is evaluated, since the training run used another "
                          "folder: data.split={train: 0, validation: 0, test: 1}; to evaluate only "
                          "a fraction of it, set data.split.test"));
}

TEST(EvaluatedData, RequestedFractionIsEvaluated) {
  for (const char* split :
       {"data.split.test=0.1", "data.split={train: 0.5, validation: 0, test: 0.1}",
        "++data.split.test=0.1", "data.split.seed=3"}) {
    const EvaluatedData data = taken("a", {"data.root=b", split});
    EXPECT_THAT(data.overrides, IsEmpty()) << split;
    EXPECT_THAT(data.lines,
                ElementsAre("data: the test part of 'b' is evaluated: data.split.test=0.1"));
  }
}

TEST(EvaluatedData, TestFolderIsEvaluated) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "test");
  const std::string root = folder.path().string();
  const EvaluatedData data = taken("a", {"data.root='" + root + "'"});
  EXPECT_THAT(data.overrides, IsEmpty());
  EXPECT_THAT(data.lines, ElementsAre("data: the folder 'test' of '" + root + "' is evaluated"));
}

/// The data on which the recipe for retina images is evaluated, with `root` as its folder.
EvaluatedData taken_of_retinas(const std::string& root, const std::vector<std::string>& overrides) {
  static const SchemaSet& schemas = shipped_schemas();
  Sources sources;
  NamedRecipe named;
  named.name = RETORT_SOURCE_DIR "/recipes/diabetic_retinopathy.yaml";
  named.config_dirs = {RETORT_SOURCE_DIR "/recipes"};
  const auto recipe = [&](std::vector<std::string> words) {
    named.overrides = std::move(words);
    auto prepared = prepare(named, schemas, sources);
    EXPECT_TRUE(prepared) << prepared.errors().at(0).message;
    return prepared->recipe.resolved;
  };
  std::vector<std::string> after = overrides;
  after.push_back("data.root='" + root + "'");
  return data_to_evaluate(recipe({"data.root=a"}), recipe(after), overrides);
}

TEST(EvaluatedData, ImageFolderCalledTrainIsNotAPart) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "train");
  const std::string root = folder.path().string();
  const EvaluatedData eyepacs = taken_of_retinas(root, {"data.layout=eyepacs_2015"});
  EXPECT_THAT(eyepacs.overrides, ElementsAre("data.split={train: 0, validation: 0, test: 1}"));
  EXPECT_THAT(eyepacs.lines,
              ElementsAre(testing::StartsWith("data: all of '" + root + "' is evaluated")));
  const EvaluatedData folders = taken_of_retinas(root, {"data.layout=class_folders"});
  EXPECT_THAT(folders.overrides, IsEmpty());
  EXPECT_THAT(folders.lines, ElementsAre("data: the folder 'test' of '" + root + "' is evaluated"));
}

TEST(EvaluatedData, LinkToTheTrainingFolderCountsAsThatFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_directory_symlink("a", folder / "b");
  EXPECT_THAT(
      taken((folder / "a").string(), {"data.root='" + (folder / "b").string() + "'"}).overrides,
      IsEmpty());
}

}  // namespace
}  // namespace runner
