// Every shipped recipe and experiment, through the real program: validates, draws, and runs two steps.

#include <algorithm>
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace {

std::vector<std::string> shipped() {
  std::vector<std::string> names;
  for (const char* folder : {"recipes", "experiments"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(RETORT_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> options_of(const std::string& group) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(RETORT_SOURCE_DIR) / "recipes" / group)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

class ShippedRecipe : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 10 --size 32 -q", folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
  }
  std::string with_data() const { return GetParam() + (GetParam() == "classify" ? " data.root=photos" : ""); }
  TemporaryFolder folder_;
};

TEST_P(ShippedRecipe, ValidatesAndDraws) {
  const Ended validated = retort("validate " + with_data(), folder_.path());
  EXPECT_EQ(validated.exit, 0) << validated.err;
  const Ended drawn = retort("graph " + with_data(), folder_.path());
  EXPECT_EQ(drawn.exit, 0) << drawn.err;
  EXPECT_THAT(drawn.out, testing::HasSubstr("train"));
}

TEST_P(ShippedRecipe, RunsTwoSteps) {
  const Ended ended =
      retort("run " + with_data() + " --smoke run.dir=run data.split.test=0.3 data.split.train=0.6", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/summary.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/nodes/train/last.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(All, ShippedRecipe, testing::ValuesIn(shipped()), [](const auto& info) { return info.param; });

TEST(ShippedGroups, EveryOptionValidates) {
  const TemporaryFolder folder;
  for (const char* group : {"data", "model", "memory", "train"}) {
    const auto options = options_of(group);
    EXPECT_FALSE(options.empty()) << group;
    for (const std::string& option : options) {
      const Ended ended =
          retort("validate classify data.root=photos " + std::string(group) + "=" + option, folder.path());
      EXPECT_EQ(ended.exit, 0) << option << ": " << ended.err;
    }
  }
}

}  // namespace
