// End-to-end tests of `retort doctor determinism`.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class DoctorDeterminism : public testing::Test {
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
  /// Runs `program doctor determinism`, and checks that it leaves no files behind.
  Ended check(const std::string& arguments,
              const std::string& program = RETORT_BINARY_DIR "/bin/retort") {
    const Ended ended =
        run_shell("TMPDIR=\"$PWD/scratch\" " + program +
                      " doctor determinism classify data.root=photos data.image_size=24 " +
                      "train.batch_size=8 " + arguments,
                  folder_.path());
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "scratch"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "outputs"));
    return ended;
  }
  /// An installation with a worker that computes different bits in every process.
  std::string unsteady_program() {
    std::filesystem::create_directories(folder_ / "unsteady/bin");
    std::filesystem::copy(RETORT_BINARY_DIR "/bin/retort", folder_ / "unsteady/bin/retort");
    std::filesystem::create_symlink(RETORT_UNSTEADY_WORKER, folder_ / "unsteady/bin/retort-worker");
    std::filesystem::create_symlink(RETORT_BINARY_DIR "/share", folder_ / "unsteady/share");
    return "unsteady/bin/retort";
  }

  SharedFolder folder_;
};

TEST_F(DoctorDeterminism, ReportsADeterministicRecipe) {
  const Ended ended = check("");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, MatchesRegex("deterministic: 3 steps, [0-9]+ tensors the same\n"));
}

TEST_F(DoctorDeterminism, AcceptsStepsAndPrintsJson) {
  const Ended ended = check("--steps 2 --json");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const auto found = nlohmann::json::parse(ended.out)["result"];
  EXPECT_EQ(found["steps"], 2);
  EXPECT_GT(found["tensors"], 10);
  EXPECT_EQ(found["difference"], nullptr);
}

TEST_F(DoctorDeterminism, NamesTheFirstTensorThatDiffers) {
  const std::string program = unsteady_program();
  const Ended ended = check("data.loader.workers=0", program);
  EXPECT_EQ(ended.exit, 1) << ended.err;
  EXPECT_THAT(
      ended.out,
      MatchesRegex(
          "not deterministic: train, step 1: batch 'image', largest difference [0-9.e-]+\n"));
  const Ended json = check("data.loader.workers=0 --json", program);
  EXPECT_EQ(json.exit, 1);
  const auto difference = nlohmann::json::parse(json.out)["result"]["difference"];
  EXPECT_EQ(difference["phase"], "batch");
  EXPECT_GT(difference["largest"], 0.0);
}

TEST_F(DoctorDeterminism, ErrorsInTheRecipeAreReported) {
  const Ended wrong = check("train.epoch=1");
  EXPECT_EQ(wrong.exit, 78);
  const Ended missing = check("data.root=nowhere");
  EXPECT_EQ(missing.exit, 66);
  EXPECT_THAT(missing.err, HasSubstr("error[E0601]"));
  folder_.write(
      "only.yaml",
      "schema: 1\nname: only\ndevice: cpu\ndata: {kind: data.image_folder, root: photos}\n");
  const Ended nothing = retort("doctor determinism only.yaml", folder_.path());
  EXPECT_EQ(nothing.exit, 1);
  EXPECT_THAT(
      nothing.err,
      HasSubstr("error[E0711]: nothing was compared: the recipe 'only' does not train anything"));
}

}  // namespace
