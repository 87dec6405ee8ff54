// End-to-end tests of published image datasets at small scale: making, reading and training on
// them.

#include <algorithm>
#include <filesystem>
#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/car_listing.h"
#include "tests/support/program.h"
#include "tests/support/small_clip.h"

namespace {

using testing::HasSubstr;

/// Overrides that make the retina recipe small enough for a quick smoke test.
constexpr const char* kSmallGrading =
    "data.image_size=32 model.weights=null 'model.layers=[1,1,1,1]' memory.precision=fp32";

class DataSets : public testing::TestWithParam<std::string> {
 protected:
  Ended make(const std::string& flags = "") const {
    return retort("data make " + GetParam() +
                      " --out made --classes 3 --per-class 8 --size 32 --seed 5 " + flags,
                  folder_.path());
  }
  Ended train(const std::string& overrides) const {
    return retort("run classify data=" + GetParam() +
                      " data.root=made data.image_size=24 epochs=1 batch_size=4 " + overrides,
                  folder_.path());
  }
  TemporaryFolder folder_;
};

TEST_P(DataSets, CanBeTrainedOn) {
  ASSERT_EQ(make("-q").exit, 0);
  const Ended ended = train("run.dir=run");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(file_text(folder_ / "run/log.txt"), HasSubstr("3 classes; "));
  EXPECT_THAT(file_text(folder_ / "run/nodes/evaluate/predictions.csv"), HasSubstr(".jpg"));
  // The run can still predict after the dataset is gone.
  std::filesystem::rename(folder_ / "made", folder_ / "moved");
  const Ended predicted = retort("predict run moved -q", folder_.path());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
}

TEST_P(DataSets, ReportTheNumberOfGeneratedImages) {
  const Ended ended = make("--json");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(ended.out)["result"],
            (nlohmann::json{{"folder", "made"}, {"images", 24}}));
  const Ended again = make();
  EXPECT_EQ(again.exit, 73);
  EXPECT_EQ(again.err,
            "error[E0610]: 'made' already exists\n"
            "  help: choose another folder, or remove this one\n");
}

TEST_P(DataSets, MissingFilesAreReported) {
  std::filesystem::create_directory(folder_ / "made");
  const Ended ended = train("run.dir=run");
  EXPECT_EQ(ended.exit, 66);
  EXPECT_THAT(ended.err, HasSubstr("error[E0601]: "));
  EXPECT_THAT(ended.err, HasSubstr(" is not in 'made', which contains neither "));
  EXPECT_THAT(ended.err, HasSubstr("[/data/root]"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST(CarListing, PublishedLayoutCanBeTrainedOn) {
  const TemporaryFolder folder;
  const std::filesystem::path root = folder / "listing";
  std::filesystem::create_directory(root);
  ASSERT_EQ(make_car_listing(root, 3, 12).exit, 0);
  const Ended ended = retort(
      "run classify data=car_listing data.root=listing data.image_size=24 epochs=1 batch_size=4 "
      "run.dir=run",
      folder.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(file_text(folder / "run/log.txt"),
              HasSubstr("3 classes; 24 images for training, 6 for validation, 6 for test"));
  EXPECT_THAT(file_text(folder / "run/log.txt"),
              HasSubstr("3 captions; the first is 'a photo of a "));
}

INSTANTIATE_TEST_SUITE_P(All, DataSets, testing::Values("flowers102", "cub200", "stanford_cars"),
                         [](const auto& info) { return info.param; });

/// Data that `data make` makes by default, and a recipe that trains on it with its own data
/// options.
struct MadeFor {
  std::string data, recipe;
};

void PrintTo(const MadeFor& made, std::ostream* out) {
  *out << made.data << " for " << made.recipe;
}

class GeneratedData : public testing::TestWithParam<MadeFor> {};

TEST_P(GeneratedData, WorksWithTheDefaultsOfItsRecipe) {
  const TemporaryFolder folder;
  const Ended made = retort("data make " + GetParam().data + " --out made -q", folder.path());
  ASSERT_EQ(made.exit, 0) << made.err;
  const Ended ended =
      retort("run " + GetParam().recipe + " data.root=made --smoke run.dir=run", folder.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, GeneratedData,
    testing::Values(
        MadeFor{"image_folder", "classify"},
        MadeFor{"image_folder", std::string("clip_flowers ") + kSmallClip},
        MadeFor{"flowers102", "finetune model/backbone=tiny data.image_size=28"},
        MadeFor{"cub200", "finetune data=cub200 model/backbone=tiny data.image_size=28"},
        MadeFor{"mini_imagenet", "fsct backbone=Conv4"},
        MadeFor{"stanford_cars", std::string("clip_cars ") + kSmallClip},
        MadeFor{"aptos_2019",
                std::string("diabetic_retinopathy method=multi_class data=aptos_2019 ") +
                    kSmallGrading},
        MadeFor{"eyepacs_2015",
                std::string("diabetic_retinopathy method=multi_class data=eyepacs_2015 ") +
                    kSmallGrading},
        MadeFor{"fundus_folders",
                std::string("diabetic_retinopathy method=multi_class ") + kSmallGrading}),
    [](const auto& info) {
      return info.param.data + "_" + info.param.recipe.substr(0, info.param.recipe.find(' '));
    });

TEST(GeneratedDataTable, CoversEveryDataKind) {
  const Ended refused = retort("data make nothing --out made", TemporaryFolder().path());
  for (const char* kind : {"image_folder", "flowers102", "cub200", "mini_imagenet", "stanford_cars",
                           "aptos_2019", "eyepacs_2015", "fundus_folders"})
    EXPECT_THAT(refused.err, HasSubstr(kind));
  EXPECT_EQ(std::ranges::count(refused.err, ','), 7) << "a new kind of data needs a recipe above";
}

}  // namespace
