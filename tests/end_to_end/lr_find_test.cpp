// End-to-end tests of `retort lr-find`.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::HasSubstr;

class LrFind : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 12 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    std::filesystem::create_directory(folder_ / "scratch");
    folder_.keep();
  }
  /// Runs `retort lr-find`, and checks that it leaves no files behind.
  Ended find(const std::string& arguments) {
    const Ended ended = run_shell("TMPDIR=\"$PWD/scratch\" " RETORT_BINARY_DIR
                                  "/bin/retort lr-find classify data.root=photos "
                                  "data.image_size=24 train.batch_size=8 model=tiny " +
                                      arguments,
                                  folder_.path());
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "scratch"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "outputs"));
    return ended;
  }

  SharedFolder folder_;
};

TEST_F(LrFind, SuggestsAnOverrideThatTheRecipeAccepts) {
  const Ended ended = find("--steps 40 --json");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const auto found = nlohmann::json::parse(ended.out)["result"];
  EXPECT_EQ(found["points"][0]["learning_rate"], 1e-7);
  EXPECT_LE(found["points"].size(), 40);
  const std::string setting = found["override"];
  EXPECT_THAT(setting, testing::StartsWith("train.optimizer.learning_rate="));
  const Ended valid = retort("validate classify data.root=photos " + setting, folder_.path());
  EXPECT_EQ(valid.exit, 0) << valid.err;
}

TEST_F(LrFind, IsReproducible) {
  const Ended once = find("--steps 20 --json"), again = find("--steps 20 --json");
  EXPECT_EQ(once.out, again.out);
}

TEST_F(LrFind, DrawsTheCurve) {
  const Ended ended = find("--steps 20 --out rates.svg");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "rates.svg")) << ended.err;
}

TEST_F(LrFind, StopsWhenTheLossDiverges) {
  const Ended ended = find(
      "--steps 60 --min 1e-3 --max 1e6 --json train.optimizer.kind=sgd "
      "train.optimizer.momentum=0.9");
  const auto found = nlohmann::json::parse(ended.out)["result"];
  EXPECT_EQ(found["diverged"], true);
  EXPECT_LT(found["points"].size(), 60);
}

TEST_F(LrFind, RejectsInvalidArguments) {
  EXPECT_THAT(find("--min fast").err, HasSubstr("--min is 'fast', not a learning rate"));
  EXPECT_THAT(find("--min 1 --max 0.5").err, HasSubstr("--min 1 is not below --max 0.5"));
  const Ended full = find("memory.budget=1MiB");
  EXPECT_THAT(full.err, HasSubstr("error[E0706]"));
  EXPECT_THAT(find("--out nowhere/rates.svg").err, HasSubstr("nowhere/rates.svg"));
}

}  // namespace
