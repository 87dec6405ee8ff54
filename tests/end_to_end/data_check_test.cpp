// Photographs of the retina, made, checked, and preprocessed from training to prediction, by the real programs.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kRecipe = R"(schema: 1
name: eyes
defaults: [{data: fundus_folders}, {model: tiny}, {memory: as_written}, {train: from_scratch}, _self_]
evaluate: {kind: evaluate.classification}
data: {root: eyes, image_size: 24, clahe: {enabled: true}, loader: {workers: 0, pinned: false}}
train: {epochs: 1, batch_size: 5}
)";

class DataCheck : public testing::Test {
 protected:
  void SetUp() override {
    const Ended made =
        retort("data make fundus_folders --out eyes --per-class 5 --size 64 --seed 1 -q", folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    std::ofstream(folder_ / "eyes.yaml") << kRecipe;
  }
  Ended check(const std::string& words = "") const { return retort("data check eyes.yaml " + words, folder_.path()); }
  TemporaryFolder folder_;
};

TEST_F(DataCheck, OfGoodDataFindsNothing) {
  const Ended ended = check();
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("data: 25 pictures, "));
  EXPECT_THAT(ended.out,
              HasSubstr("\n\nclass          train  validation  test\nNo DR              3           1     1\n"));
  EXPECT_THAT(ended.out, HasSubstr("\nnothing was found\n"));
  const Ended shipped = retort("data check diabetic_retinopathy data.root=eyes -q", folder_.path());
  EXPECT_EQ(shipped.exit, 0) << shipped.err;
}

TEST_F(DataCheck, CopiesInTwoPartsEndWithTheCodeOfBadData) {
  fs::copy_file(folder_ / "eyes/test/1/00001.jpg", folder_ / "eyes/train/1/copy.jpg");
  const Ended ended = check();
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("error[E0612]: 1 picture is in more than one part, byte for byte: "
                                   "'train/1/copy.jpg' (train) = 'test/1/00001.jpg' (test) [/data]"));
  const Ended dropped = check("data.duplicates=drop");
  EXPECT_EQ(dropped.exit, 0) << dropped.err;
  EXPECT_THAT(dropped.err, HasSubstr("warning[E0612]: 1 picture is in more than one part"));
  const Ended json = check("--json");
  EXPECT_EQ(json.exit, 65);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["schema"], "data_check/1");
  EXPECT_EQ(document["result"]["data"][0]["identical"]["across_parts"], 1);
  EXPECT_EQ(document["errors"].size(), 1u);
}

TEST_F(DataCheck, WhatCannotBeReadIsNamed) {
  std::ofstream(folder_ / "eyes/val/0/broken.png") << "no picture";
  const Ended ended = check();
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("error[E0604]: 1 picture cannot be read: 'val/0/broken.png' ("));
  EXPECT_EQ(check("data.on_corrupt=skip").exit, 0);
}

TEST_F(DataCheck, IsOfRecipes) {
  EXPECT_EQ(retort("data check nosuch", folder_.path()).exit, 66);
  const Ended made = retort("data make image_folder seed=3 --out a", folder_.path());
  EXPECT_EQ(made.exit, 64);
  EXPECT_THAT(made.err, HasSubstr("'seed=3' is too much"));
  const Ended none = retort("data check eyes.yaml '~data' '~train' '~evaluate' '~model' '~memory'", folder_.path());
  EXPECT_NE(none.exit, 0);
}

TEST_F(DataCheck, APredictionIsPreprocessedAsTheTrainingWas) {
  const Ended run = retort("run eyes.yaml run.dir=run", folder_.path());
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended plain = retort("run eyes.yaml run.dir=plain data.clahe.enabled=false", folder_.path());
  ASSERT_EQ(plain.exit, 0) << plain.err;
  // The test's predictions, and those of the same files by the checkpoint alone.
  const auto predicted = [&](const std::string& from) {
    return retort("predict " + from + " eyes/test/0 eyes/test/3 --top 5 -q", folder_.path());
  };
  const Ended both = predicted("run");
  ASSERT_EQ(both.exit, 0) << both.err;
  EXPECT_NE(both.out, predicted("plain").out);
  EXPECT_THAT(both.err, Not(HasSubstr("retina")));
}

TEST_F(DataCheck, APredictionOfWhatIsNoRetinaSaysSo) {
  ASSERT_EQ(retort("run eyes.yaml run.dir=run --smoke -q", folder_.path()).exit, 0);
  ASSERT_EQ(retort("data make image_folder --out shapes --per-class 1 --classes 2 --size 32 -q", folder_.path()).exit,
            0);
  const Ended ended = retort("predict run shapes eyes/test/0", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("2 pictures do not look like photographs of a retina, so what is said of them means "
                                   "nothing: 'shapes/"));
}

}  // namespace
