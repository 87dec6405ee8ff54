// Published sets of photographs at small scale, made, read and trained on by the real programs.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/car_listing.h"
#include "tests/support/program.h"

namespace {

using testing::HasSubstr;

class DataSets : public testing::TestWithParam<std::string> {
 protected:
  Ended make(const std::string& flags = "") const {
    return retort("data make " + GetParam() + " --out made --classes 3 --per-class 8 --size 32 --seed 5 " + flags,
                  folder_.path());
  }
  Ended train(const std::string& overrides) const {
    return retort(
        "run classify data=" + GetParam() + " data.root=made data.image_size=24 epochs=1 batch_size=4 " + overrides,
        folder_.path());
  }
  TemporaryFolder folder_;
};

TEST_P(DataSets, AreTrainedOn) {
  ASSERT_EQ(make("-q").exit, 0);
  const Ended smoke = train("--smoke run.dir=smoke");
  EXPECT_EQ(smoke.exit, 0) << smoke.err;
  const Ended ended = train("run.dir=run");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(file_text(folder_ / "run/log.txt"), HasSubstr("3 classes; "));
  EXPECT_THAT(file_text(folder_ / "run/nodes/evaluate/predictions.csv"), HasSubstr(".jpg"));
  // Where the set is gone the record still predicts.
  std::filesystem::rename(folder_ / "made", folder_ / "moved");
  const Ended predicted = retort("predict run moved -q", folder_.path());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
}

TEST_P(DataSets, SayWhatTheyMade) {
  const Ended ended = make("--json");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(ended.out)["result"], (nlohmann::json{{"folder", "made"}, {"images", 24}}));
  const Ended again = make();
  EXPECT_EQ(again.exit, 73);
  EXPECT_EQ(again.err,
            "error[E0610]: 'made' already exists\n"
            "  help: choose another folder, or remove this one\n");
}

TEST_P(DataSets, WhatIsNotThereIsMissingInput) {
  std::filesystem::create_directory(folder_ / "made");
  const Ended ended = train("run.dir=run");
  EXPECT_EQ(ended.exit, 66);
  EXPECT_THAT(ended.err, HasSubstr("error[E0601]: "));
  EXPECT_THAT(ended.err, HasSubstr(" is not in 'made': it has neither "));
  EXPECT_THAT(ended.err, HasSubstr("[/data/root]"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST(CarListing, IsTrainedOnAsItWasPublished) {
  const TemporaryFolder folder;
  const std::filesystem::path root = folder / "listing";
  std::filesystem::create_directory(root);
  ASSERT_EQ(make_car_listing(root, 3, 12).exit, 0);
  const Ended ended =
      retort("run classify data=car_listing data.root=listing data.image_size=24 epochs=1 batch_size=4 run.dir=run",
             folder.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(file_text(folder / "run/log.txt"),
              HasSubstr("3 classes; 24 images for training, 6 for validation, 6 for test"));
  EXPECT_THAT(file_text(folder / "run/log.txt"), HasSubstr("3 captions, the first: 'a photo of a "));
}

INSTANTIATE_TEST_SUITE_P(All, DataSets, testing::Values("flowers102", "cub200", "stanford_cars"),
                         [](const auto& info) { return info.param; });

}  // namespace
