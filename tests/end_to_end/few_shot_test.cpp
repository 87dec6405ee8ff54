// End-to-end tests of the few-shot recipe: training, resuming, evaluating, comparing and
// predicting.

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kRun =
    "run fsct backbone=Conv4 data.root=mini data.image_size=32 data.loader.workers=0 n_way=3 "
    "k_shot=2 n_query=3 train.episodes=4 train.validation_episodes=3 num_epoch=2 test_iter=40 ";

class FewShot : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make mini_imagenet --out mini --classes 12 --per-class 6 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  Ended run(const std::string& name, const std::string& more = "",
            const std::string& fault = "") const {
    return run_shell((fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') +
                         RETORT_BINARY_DIR "/bin/retort " + kRun + "run.dir=" + name + ' ' + more,
                     folder_.path());
  }
  json metrics(const std::string& name) const {
    return json::parse(file_text(folder_ / (name + "/nodes/evaluate/metrics.json")));
  }
  std::string weights(const std::string& name) const {
    const std::filesystem::path checkpoints = folder_ / (name + "/nodes/train/checkpoints");
    std::string best = file_text(checkpoints / "best");
    if (!best.empty()) best.pop_back();
    return file_text(checkpoints / best / "model.safetensors");
  }
  SharedFolder folder_;
};

TEST_F(FewShot, EvaluatesEpisodeByEpisode) {
  const Ended ended = run("run");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("evaluate: accuracy "));
  EXPECT_THAT(ended.err, HasSubstr(" over 40 episodes (95% interval), chance 33.3%"));
  const json measured = metrics("run");
  EXPECT_EQ(measured["accuracies"].size(), 40u);
  EXPECT_EQ(measured["per_class"].size(), 3u);
  const Ended analyzed = retort("analyze run -q", folder_.path());
  EXPECT_EQ(analyzed.exit, 0) << analyzed.err;
  EXPECT_THAT(analyzed.err, testing::Not(HasSubstr("curves")));
  EXPECT_THAT(file_text(folder_ / "run/analysis/episodes.svg"), HasSubstr("40 episodes, mean "));
}

TEST_F(FewShot, ResumedTrainingIsBitIdentical) {
  ASSERT_EQ(run("whole").exit, 0);
  ASSERT_NE(
      run("killed", "train.checkpoint.every.steps=1 memory.max_retries=0", "retort-worker/step:6")
          .exit,
      0);
  const Ended resumed = retort("resume killed", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(weights("killed"), weights("whole"));
  EXPECT_EQ(metrics("killed"), metrics("whole"));
}

TEST_F(FewShot, MethodsAreComparedOnTheSameEpisodesForAnySeed) {
  ASSERT_EQ(run("cosine", "method=FSCT_cosine").exit, 0);
  ASSERT_EQ(run("softmax", "method=FSCT_softmax seed=9").exit, 0);
  const Ended compared = retort("compare cosine softmax --paired --out drawn", folder_.path());
  ASSERT_EQ(compared.exit, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("over the same episodes"));
  EXPECT_THAT(compared.out, HasSubstr("softmax against cosine"));
  EXPECT_THAT(file_text(folder_ / "drawn/paired_differences.svg"), HasSubstr("40 episodes, mean "));
  ASSERT_EQ(run("other", "evaluate.seed=1").exit, 0);
  const Ended refused = retort("compare cosine other --paired", folder_.path());
  EXPECT_NE(refused.exit, 0);
  EXPECT_THAT(refused.err, HasSubstr("was evaluated over different episodes than"));
}

TEST_F(FewShot, PredictsFromAFewExamplesPerClass) {
  ASSERT_EQ(run("run").exit, 0);
  ASSERT_EQ(
      retort("data make image_folder --out album --classes 3 --per-class 3 --size 32 --seed 8 -q",
             folder_.path())
          .exit,
      0);
  const Ended asked = retort("predict run --support album album --top 3", folder_.path());
  ASSERT_EQ(asked.exit, 0) << asked.err;
  EXPECT_THAT(asked.err, HasSubstr("3 classes with 2 examples each; 3 more examples are not used"));
  EXPECT_EQ(std::ranges::count(asked.out, '\n'), 10);

  const Ended without = retort("predict run album", folder_.path());
  EXPECT_NE(without.exit, 0);
  EXPECT_THAT(without.err, HasSubstr("--support FOLDER"));
  const Ended loose = retort(
      "predict run --support album/" +
          std::filesystem::directory_iterator(folder_ / "album")->path().filename().string() +
          " album",
      folder_.path());
  EXPECT_THAT(loose.err, HasSubstr("is not in a class folder"));
}

TEST_F(FewShot, TestPartWithTrainingClassesIsNotAugmented) {
  ASSERT_EQ(run("trained", "train_aug=1 split=base").exit, 0);
  const Ended plain = retort(
      "evaluate trained data.augment.random_resized_crop=null data.augment.horizontal_flip=0 "
      "run.dir=plain",
      folder_.path());
  ASSERT_EQ(plain.exit, 0) << plain.err;
  EXPECT_EQ(metrics("plain")["accuracies"], metrics("trained")["accuracies"]);
}

TEST_F(FewShot, ExamplesFromChangedDataAreRejected) {
  ASSERT_EQ(run("run").exit, 0);
  ASSERT_EQ(
      retort(
          "data make image_folder --out mini/album --classes 3 --per-class 3 --size 32 --seed 8 -q",
          folder_.path())
          .exit,
      0);
  const Ended refused = retort("predict run --support mini/album mini/album", folder_.path());
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("error[E0807]: the input /data/root was "));
  EXPECT_EQ(refused.out, "");
  const Ended forced =
      retort("predict run --force --support mini/album mini/album", folder_.path());
  EXPECT_EQ(forced.exit, 0) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("warning[E0807]: the input /data/root was "));
}

TEST_F(FewShot, FeaturesOfAFrozenBackboneAreCached) {
  const std::string fixed = "model.backbone.trainable=false method=FSCT_softmax ";
  ASSERT_EQ(run("images", fixed).exit, 0);
  const Ended kept = run("kept", fixed + "+features=kept");
  ASSERT_EQ(kept.exit, 0) << kept.err;
  EXPECT_THAT(kept.err, HasSubstr("train: 36 features of 256 values, 36,864 bytes"));
  const json of_images = metrics("images")["accuracies"],
             of_features = metrics("kept")["accuracies"];
  EXPECT_EQ(of_features, of_images);
  EXPECT_EQ(metrics("kept")["drawn"], metrics("images")["drawn"]);
  const Ended certified = run_shell(RETORT_BINARY_DIR "/bin/retort certify" +
                                        std::string(kRun).substr(3) + fixed + "+features=kept",
                                    folder_.path());
  EXPECT_EQ(certified.exit, 0) << certified.err;

  const Ended refused = run("refused", "+features=kept");
  EXPECT_NE(refused.exit, 0);
  EXPECT_THAT(refused.err,
              HasSubstr("'model' has no frozen part, so there are no features to cache"));
  EXPECT_THAT(refused.err,
              HasSubstr("set backbone.trainable: false and backbone.batch_norm: running"));
}

TEST_F(FewShot, ContradictoryOptionsAreRejectedBeforeTheRun) {
  const Ended undivided = run("d", "data.split_seed=3");
  EXPECT_EQ(undivided.exit, 78);
  EXPECT_THAT(undivided.err, HasSubstr("set classes to random, or leave split_seed out"));
  const Ended one_shot = run("a", "k_shot=1 lambda_V=0.5");
  EXPECT_EQ(one_shot.exit, 78);
  EXPECT_THAT(one_shot.err, HasSubstr("With one shot the deviation within a class is not defined"));
  const Ended other_shape = run("b", "evaluate.shots=1");
  EXPECT_NE(other_shape.exit, 0);
  const Ended many = run("c", "n_query=9");
  EXPECT_NE(many.exit, 0);
  EXPECT_THAT(many.err, HasSubstr("an episode needs 11 images per class"));
  for (const char* name : {"a", "b", "c"})
    EXPECT_FALSE(std::filesystem::exists(folder_ / name)) << name;
}

}  // namespace
