// A secret that a record does not hold, through the real programs: asked for again by whoever needs it, and never
// recorded.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class LostSecret : public testing::Test {
 protected:
  void SetUp() override {
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 10 --size 32 -q", folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "photos")) {
      if (entry.path().extension() == ".jpg") image_ = entry.path().string();
    }
    run("run classify epochs=1 run.dir=first ~evaluate");
  }
  void run(const std::string& command) {
    const Ended ended = retort(command + " data.root=photos data.image_size=24 batch_size=8 -q", folder_.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  /// A run whose backbone's weights are a secret.
  void run_on_secret_weights() {
    ASSERT_EQ(retort("export first -q --out hidden-base", folder_.path()).exit, 0);
    run("run finetune data=image_folder model=linear_probe model/backbone=local '+vars.secret_base=hidden-base' "
        "'model.backbone.weights=${vars.secret_base}' epochs=1 run.dir=run");
    ASSERT_THAT(file_text(folder_ / "run/.retort/recipe.yaml"), Not(HasSubstr("hidden-base")));
  }
  TemporaryFolder folder_;
  std::string image_;
};

TEST_F(LostSecret, IsNotShownByAVerbThatFailsOnIt) {
  for (const char* verb : {"plan", "plan --json", "run -v", "doctor determinism"}) {
    const Ended ended = retort(std::string(verb) +
                                   " finetune data=image_folder data.root=photos data.image_size=24 model=linear_probe "
                                   "model/backbone=local '+vars.secret_base=hidden-base' "
                                   "'model.backbone.weights=${vars.secret_base}/a' epochs=1",
                               folder_.path());
    EXPECT_EQ(ended.exit, 66) << verb << ended.err;
    EXPECT_THAT(ended.out + ended.err, HasSubstr("there is no '${vars.secret_base}/a'")) << verb;
    EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("hidden-base"))) << verb;
  }
}

TEST_F(LostSecret, ThatIsNeededIsAskedForAgainByEachVerb) {
  run_on_secret_weights();
  const std::string given = " model.backbone.weights=hidden-base";
  for (const std::string& verb :
       {"predict run " + image_, std::string("export run --out out"), std::string("evaluate run run.dir=out")}) {
    const Ended refused = retort(verb, folder_.path());
    EXPECT_EQ(refused.exit, 78) << verb;
    EXPECT_THAT(refused.err, HasSubstr("error[E0213]: a secret was here, which the record does not hold "
                                       "[/model/backbone/weights]\n"))
        << verb;
    EXPECT_THAT(refused.err, HasSubstr("  help: give it again as an override\n")) << verb;
    EXPECT_FALSE(fs::exists(folder_ / "out")) << verb;
    const Ended done = retort(verb + given, folder_.path());
    EXPECT_EQ(done.exit, 0) << verb << ": " << done.err;
    fs::remove_all(folder_ / "last");
    if (fs::exists(folder_ / "out")) fs::rename(folder_ / "out", folder_ / "last");
  }
  // What was given again is not in the new record either.
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "last")) {
    if (entry.is_regular_file()) {
      EXPECT_THAT(file_text(entry.path()), Not(HasSubstr("hidden-base"))) << entry.path();
    }
  }
  EXPECT_THAT(file_text(folder_ / "last/.retort/overrides.yaml"), HasSubstr("- model.backbone.weights=***\n"));
}

TEST_F(LostSecret, GivenAgainWrongIsRefused) {
  run_on_secret_weights();
  run("run classify epochs=1 seed=8 run.dir=second ~evaluate");
  ASSERT_EQ(retort("export second -q --out other-base", folder_.path()).exit, 0);
  const Ended ended = retort("predict run " + image_ + " model.backbone.weights=other-base", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("error[E0807]: the checkpoint was trained on other frozen weights: "));
}

TEST_F(LostSecret, OfTheTrainingAloneIsNotNeededAfterIt) {
  run("run classify '+vars.secret_start=first' 'train.warm_start=${vars.secret_start}' epochs=1 run.dir=run");
  ASSERT_THAT(file_text(folder_ / "run/.retort/recipe.yaml"), HasSubstr("  warm_start: '***'\n"));
  const Ended predicted = retort("predict run " + image_, folder_.path());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
  const Ended exported = retort("export run --out out", folder_.path());
  EXPECT_EQ(exported.exit, 0) << exported.err;
}

TEST_F(LostSecret, OtherOverridesOfAnExportAreRefused) {
  const Ended ended = retort("export first seed=3 vars.api_key=abc", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_EQ(ended.err,
            "error[E0809]: 'seed=3' has no effect on an export\n"
            "  help: an export takes no override but a secret that the run's record does not hold\n"
            "error[E0809]: 'vars.api_key=***' has no effect on an export\n"
            "  help: an export takes no override but a secret that the run's record does not hold\n");
}

}  // namespace
