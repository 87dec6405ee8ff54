// End-to-end tests of retina images: making, checking and preprocessing them, from training to
// prediction.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

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
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make fundus_folders --out eyes --per-class 5 --size 64 --seed 1 -q", folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    std::ofstream(folder_ / "eyes.yaml") << kRecipe;
    folder_.keep();
  }
  Ended check(const std::string& words = "") const {
    return retort("data check eyes.yaml " + words, folder_.path());
  }
  SharedFolder folder_;
};

TEST_F(DataCheck, FindsNoProblemsInGoodData) {
  const Ended ended = check();
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("data: 25 images, "));
  EXPECT_THAT(
      ended.out,
      HasSubstr(
          "\n\nclass          train  validation  test\nNo DR              3           1     1\n"));
  EXPECT_THAT(ended.out, HasSubstr("\nno problems found\n"));
  const Ended shipped = retort("data check diabetic_retinopathy data.root=eyes -q", folder_.path());
  EXPECT_EQ(shipped.exit, 0) << shipped.err;
}

TEST_F(DataCheck, DuplicatesAcrossPartsAreAnError) {
  fs::copy_file(folder_ / "eyes/test/1/00001.jpg", folder_ / "eyes/train/1/copy.jpg");
  const Ended ended = check();
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err,
              HasSubstr("error[E0612]: 1 image is in more than one part, byte for byte: "
                        "'train/1/copy.jpg' (train) = 'test/1/00001.jpg' (test) [/data]"));
  const Ended dropped = check("data.duplicates=drop");
  EXPECT_EQ(dropped.exit, 0) << dropped.err;
  EXPECT_THAT(dropped.err, HasSubstr("warning[E0612]: 1 image is in more than one part"));
  const Ended json = check("--json");
  EXPECT_EQ(json.exit, 65);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["schema"], "data_check/1");
  EXPECT_EQ(document["result"]["data"][0]["identical"]["across_parts"], 1);
  EXPECT_EQ(document["errors"].size(), 1u);
}

TEST_F(DataCheck, PatientsAreIdentifiedByFileName) {
  const auto rename = [&](const std::string& from, const std::string& to) {
    fs::rename(folder_ / "eyes" / from, folder_ / "eyes" / to);
  };
  EXPECT_THAT(check().out, HasSubstr("; 25 names without a patient\n"));
  rename("train/0/00005.jpg", "train/0/14287_left-600-FA.jpg");
  rename("test/1/00001.jpg", "test/1/14287_right-600.jpg");
  const Ended ended = check();
  EXPECT_THAT(ended.out, HasSubstr("; 1 patient; 23 names without a patient\n"));
  EXPECT_THAT(ended.err, HasSubstr("images of 1 patient are in more than one part: 14287"));
  rename("train/1/00004.jpg", "train/1/anna-1.jpg");
  EXPECT_THAT(check(R"('data.patient="^([a-z]+)-"')").out,
              HasSubstr("; 1 patient; 24 names without a patient\n"));
  const Ended refused = check(R"('data.patient="^([a-z]+-"')");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("missing closing parenthesis"));
}

TEST_F(DataCheck, CachedImagesGiveTheSameWeights) {
  const auto run = [&](const std::string& name, const std::string& more) {
    return run_shell(
        "RETORT_CACHE=" + (folder_ / "cache").string() +
            " " RETORT_BINARY_DIR
            "/bin/retort run eyes.yaml train.epochs=2 data.augment.rotation=10 run.dir=" +
            name + " " + more,
        folder_.path());
  };
  const auto weights = [&](const std::string& name) {
    const fs::path checkpoints = folder_ / name / "nodes/train/checkpoints";
    std::string best = file_text(checkpoints / "best");
    if (!best.empty()) best.pop_back();
    return file_text(checkpoints / best / "model.safetensors");
  };
  const auto stored = [&] {
    std::vector<fs::path> files;
    if (!fs::exists(folder_ / "cache/pictures")) return files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache/pictures"))
      if (entry.is_regular_file()) files.push_back(entry.path());
    return files;
  };
  ASSERT_EQ(run("off", "data.cache_mib=0 data.cache_on_disk=false").exit, 0);
  EXPECT_EQ(stored().size(), 0u);
  const Ended kept = run("memory", "");
  ASSERT_EQ(kept.exit, 0) << kept.err;
  EXPECT_THAT(kept.err, HasSubstr("may be cached in memory: all that this stage can use"));
  EXPECT_EQ(stored().size(), 0u);
  ASSERT_EQ(run("disk", "data.cache_mib=0").exit, 0);
  EXPECT_EQ(stored().size(), 25u);
  ASSERT_EQ(run("disk_again", "data.cache_mib=0").exit, 0);
  for (const fs::path& file : stored()) std::ofstream(file) << "damaged";
  ASSERT_EQ(run("damaged", "data.cache_mib=0").exit, 0);
  const std::string expected = weights("off");
  ASSERT_FALSE(expected.empty());
  for (const char* const name : {"memory", "disk", "disk_again", "damaged"})
    EXPECT_EQ(weights(name), expected) << name;
}

TEST_F(DataCheck, UnreadableImageIsReported) {
  std::ofstream(folder_ / "eyes/val/0/broken.png") << "no picture";
  const Ended ended = check();
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("error[E0604]: 1 image cannot be read: 'val/0/broken.png' ("));
  EXPECT_EQ(check("data.on_corrupt=skip").exit, 0);
}

TEST_F(DataCheck, ReportsAllProblemsAtOnce) {
  fs::create_directories(folder_ / "eyes/train/nothing");  // an empty class, which stops a run
  std::ofstream(folder_ / "eyes/val/0/broken.png") << "no picture";
  std::ofstream(folder_ / "eyes/val/0/old.gif") << "GIF89a";
  fs::copy_file(folder_ / "eyes/test/1/00001.jpg", folder_ / "eyes/test/1/copy.jpg");
  for (const std::string& more : {"", "data.on_corrupt=skip"}) {
    const Ended ended = check(more);
    EXPECT_EQ(ended.exit, 65);
    EXPECT_THAT(ended.out, HasSubstr("data: 27 images, "));
    EXPECT_THAT(ended.err, HasSubstr("a class has no images: 'nothing'"));
    EXPECT_THAT(ended.err, HasSubstr("1 image cannot be read: 'val/0/broken.png' ("));
    EXPECT_THAT(ended.err,
                HasSubstr("1 image appears more than once, byte for byte: 'test/1/00001.jpg' = "
                          "'test/1/copy.jpg'"));
    EXPECT_EQ(ended.err.find("unsupported format: 1 .gif") == std::string::npos, !more.empty())
        << ended.err;
  }
  fs::remove_all(folder_ / "eyes/train/nothing");
  const Ended divided = check();
  EXPECT_EQ(divided.exit, 65);
  EXPECT_THAT(divided.err, HasSubstr("unsupported format: 1 .gif"));
  EXPECT_THAT(divided.err, HasSubstr("1 image cannot be read: 'val/0/broken.png' ("));
  EXPECT_THAT(
      divided.err,
      HasSubstr("1 image appears more than once in one part, byte for byte: 'test/1/00001.jpg' = "
                "'test/1/copy.jpg'"));
}

TEST_F(DataCheck, ImageFoldersOutsideEveryPartAreReported) {
  fs::create_directories(folder_ / "eyes/holdout/0/deeper");
  fs::create_directories(folder_ / "eyes/train/1/more");
  fs::create_directories(folder_ / "eyes/papers");
  std::ofstream(folder_ / "eyes/papers/notes.txt") << "no picture";
  fs::copy_file(folder_ / "eyes/test/1/00001.jpg", folder_ / "eyes/holdout/0/a.jpg");
  fs::copy_file(folder_ / "eyes/test/1/00001.jpg", folder_ / "eyes/holdout/0/deeper/b.jpg");
  fs::copy_file(folder_ / "eyes/test/1/00001.jpg", folder_ / "eyes/train/1/more/c.jpg");
  const Ended ended = check();
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("warning[E0612]: 2 folders of images belong to no part: "
                                   "'holdout' (2), 'train/1/more' (1)"));
}

TEST_F(DataCheck, RequiresARecipeWithData) {
  EXPECT_EQ(retort("data check nosuch", folder_.path()).exit, 66);
  const Ended made = retort("data make image_folder seed=3 --out a", folder_.path());
  EXPECT_EQ(made.exit, 64);
  EXPECT_THAT(made.err, HasSubstr("unexpected word 'seed=3'"));
  const Ended none = retort("data check eyes.yaml '~data' '~train' '~evaluate' '~model' '~memory'",
                            folder_.path());
  EXPECT_NE(none.exit, 0);
}

TEST_F(DataCheck, PredictionIsPreprocessedLikeTraining) {
  const Ended run = retort("run eyes.yaml run.dir=run", folder_.path());
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended plain =
      retort("run eyes.yaml run.dir=plain data.clahe.enabled=false", folder_.path());
  ASSERT_EQ(plain.exit, 0) << plain.err;
  // Predicts test images with the run's checkpoint.
  const auto predicted = [&](const std::string& from) {
    return retort("predict " + from + " eyes/test/0 eyes/test/3 --top 5 -q", folder_.path());
  };
  const Ended both = predicted("run");
  ASSERT_EQ(both.exit, 0) << both.err;
  EXPECT_NE(both.out, predicted("plain").out);
  EXPECT_THAT(both.err, Not(HasSubstr("retina")));
}

TEST_F(DataCheck, PredictWarnsAboutNonRetinaImages) {
  ASSERT_EQ(retort("run eyes.yaml run.dir=run --smoke -q", folder_.path()).exit, 0);
  ASSERT_EQ(retort("data make image_folder --out shapes --per-class 1 --classes 2 --size 32 -q",
                   folder_.path())
                .exit,
            0);
  const Ended ended = retort("predict run shapes eyes/test/0", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("2 images do not look like a photograph of a retina, so their "
                                   "predictions are meaningless: 'shapes/"));
}

}  // namespace
