#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/adapters/data_cub200.h"
#include "stages/adapters/data_flowers102.h"
#include "stages/adapters/made_datasets.h"
#include "stages/contrastive/data_stanford_cars.h"
#include "stages/data/image.h"
#include "stages/few_shot/few_shot_list.h"
#include "stages/few_shot/make_mini_imagenet.h"
#include "stages/retina/retina.h"
#include "tests/support/durable_storage.h"
#include "tests/support/folder_contents.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

using Make = void (*)(const fs::path&, const MadeImages&, const MakeCallbacks&);

class MakePublished : public testing::TestWithParam<Make> {
 protected:
  runner::Diagnostics failure(const MadeImages& images) const {
    return refusals_of([&] { GetParam()(folder_ / "a", images, {}); });
  }
  DrawingFolder folder_;
};

TEST_P(MakePublished, SameNumbersSameBytes) {
  const MadeImages images{.classes = 5, .per_class = 4, .size = 24, .seed = 5};
  GetParam()(folder_ / "a", images, {});
  GetParam()(folder_ / "b/", images, {});
  GetParam()(folder_ / "c", {.classes = 5, .per_class = 4, .size = 24, .seed = 6}, {});
  EXPECT_EQ(contents_of(folder_ / "a"), contents_of(folder_ / "b"));
  EXPECT_NE(contents_of(folder_ / "a"), contents_of(folder_ / "c"));
}

TEST_P(MakePublished, EverythingIsOnTheDiskBeforeItHasItsName) {
  DurableStorage storage;
  GetParam()(folder_ / "a", {.classes = 3, .per_class = 4, .size = 24}, {.storage = &storage});
  EXPECT_EQ(storage.renamed, 1);
  EXPECT_THAT(storage.early, testing::IsEmpty());
  EXPECT_TRUE(storage.has_flushed_the_latest_name());
}

TEST_P(MakePublished, CancelledLeavesNothing) {
  std::int64_t made = 0;
  const MakeCallbacks callbacks{.progress = [&](std::int64_t done, std::int64_t) { made = done; },
                                .cancelled = [&] { return made == 3; }};
  EXPECT_THROW(GetParam()(folder_ / "a", {.classes = 3, .per_class = 4, .size = 16}, callbacks),
               runner::Cancelled);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_P(MakePublished, NothingIsOverwrittenAndWhatCannotBeMadeIsRefused) {
  folder_.add("a/mine.jpg");
  EXPECT_REFUSED(failure({.classes = 3, .per_class = 4, .size = 16}), kFolderExists, "/root");
  fs::remove_all(folder_ / "a");
  EXPECT_REFUSED(failure({.classes = 25}), kNotAllowedValue, "/make/classes");
  EXPECT_REFUSED(failure({.classes = 3, .per_class = 0}), kNotAllowedValue, "/make",
                 "0 images of 64");
}

INSTANTIATE_TEST_SUITE_P(All, MakePublished,
                         testing::Values(make_flowers102, make_cub200, make_mini_imagenet,
                                         make_stanford_cars, make_aptos_2019, make_eyepacs_2015,
                                         make_fundus_folders),
                         [](const auto& info) {
                           if (info.param == make_mini_imagenet) return "mini_imagenet";
                           if (info.param == make_aptos_2019) return "aptos_2019";
                           if (info.param == make_eyepacs_2015) return "eyepacs_2015";
                           if (info.param == make_fundus_folders) return "fundus_folders";
                           if (info.param == make_stanford_cars) return "stanford_cars";
                           return info.param == make_cub200 ? "cub200" : "flowers102";
                         });

TEST(MakeFlowers102, IsReadAsThePublishedSetIs) {
  const DrawingFolder folder;
  std::int64_t last = 0;
  make_flowers102(
      folder.path() / "new/data", {.classes = 4, .per_class = 9, .size = 24, .seed = 1},
      {.progress = [&](std::int64_t done, std::int64_t) { last = done; }, .cancelled = {}});
  EXPECT_EQ(last, 36);
  const auto list = list_flowers102(folder / "new/data", FlowerParts::kPublished, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_EQ(list->classes.size(), 4u);
  EXPECT_EQ((*list)[Part::kTrain].size(), 8u);
  EXPECT_EQ((*list)[Part::kValidation].size(), 8u);
  EXPECT_EQ((*list)[Part::kTest].size(), 20u);
  // In the order of the classes, and within one in none; the files of a class lie together.
  const auto& test = (*list)[Part::kTest];
  EXPECT_TRUE(std::ranges::is_sorted(test, {}, &ImageFile::label));
  EXPECT_FALSE(std::ranges::is_sorted(test, {}, &ImageFile::name));
  std::map<std::string, std::int64_t> labels;
  for (const auto& part : list->parts) {
    for (const ImageFile& file : part) labels[file.name] = file.label;
  }
  EXPECT_EQ(labels.size(), 36u);
  int changes = 0;
  for (auto at = std::next(labels.begin()); at != labels.end(); ++at)
    changes += at->second != std::prev(at)->second;
  EXPECT_EQ(changes, 3);
}

TEST(MakeFlowers102, MoreImagesThanTheListsCanCount) {
  const DrawingFolder folder;
  EXPECT_REFUSED(make_flowers102(folder / "a", {.classes = 10, .per_class = 7000, .size = 16}),
                 kNotAllowedValue, "/make", "70000", "65535");
}

TEST(MakeCub200, IsReadAsThePublishedSetIs) {
  const DrawingFolder folder;
  make_cub200(folder / "data", {.classes = 3, .per_class = 5, .size = 40, .seed = 1});
  const auto list = list_cub200(folder / "data", /*boxes=*/true, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_THAT(list->classes,
              testing::ElementsAre("Stripes horizontal", "Stripes vertical", "Disc"));
  EXPECT_EQ((*list)[Part::kTrain].size(), 9u);
  EXPECT_EQ((*list)[Part::kTest].size(), 6u);
  for (const ImageFile& file : (*list)[Part::kTrain]) {
    ASSERT_TRUE(file.box);
    EXPECT_EQ(file.box->width, 25);
    EXPECT_GE(file.box->left, 0);
    EXPECT_LE(file.box->left + file.box->width, 40);
  }
  EXPECT_EQ(read_image_header(file_bytes(list->root / (*list)[Part::kTrain][0].name)).width, 40);
}

TEST(MakeStanfordCars, IsReadAsThePublishedSetIs) {
  const DrawingFolder folder;
  make_stanford_cars(folder / "data", {.classes = 5, .per_class = 7, .size = 40, .seed = 1});
  const auto list = list_stanford_cars(folder / "data", CarLabels::kModel, /*boxes=*/true, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_THAT(list->classes,
              testing::ElementsAre("AM General Stripes Horizontal Sedan 2000",
                                   "AM General Stripes Vertical Coupe 2001",
                                   "AM General Disc SUV 2002", "Aston Martin Frame Sedan 2003",
                                   "Aston Martin Checkerboard Coupe 2004"));
  EXPECT_FALSE(list->no_test);
  EXPECT_EQ((*list)[Part::kTrain].size(), 20u);
  EXPECT_EQ((*list)[Part::kTest].size(), 15u);
  EXPECT_EQ((*list)[Part::kTrain][0].name, "cars_train/00001.jpg");
  EXPECT_FALSE(std::ranges::is_sorted((*list)[Part::kTrain], {}, &ImageFile::label));
  std::map<std::int64_t, int> counts;
  for (const auto& part : list->parts) {
    for (const ImageFile& file : part) {
      ++counts[file.label];
      ASSERT_TRUE(file.box);
      EXPECT_EQ(file.box->width, 25);
      EXPECT_GE(file.box->left, 0);
      EXPECT_LE(file.box->left + file.box->width, 40);
    }
  }
  for (const auto& [label, count] : counts) EXPECT_EQ(count, 7) << label;
  EXPECT_EQ(read_image_header(file_bytes(list->root / "cars_test/00015.jpg")).width, 40);
}

TEST(MakeMiniImagenet, IsReadAsThePublishedSetIs) {
  const DrawingFolder folder;
  make_mini_imagenet(folder / "data", {.classes = 9, .per_class = 4, .size = 24, .seed = 2});
  FewShotSource source{.root = folder / "data",
                       .candidates = {{{"base.json"}, {"val.json"}, {"novel.json"}}}};
  const auto parts = list_few_shot(source);
  ASSERT_TRUE(parts) << parts.errors().front().message;
  std::set<std::string> names;
  for (const FewShotPart& part : *parts)
    names.insert(part.list.classes.begin(), part.list.classes.end());
  EXPECT_EQ(names.size(), 9u);
  EXPECT_EQ((*parts)[0].list.classes.size(), 5u);
  EXPECT_EQ((*parts)[1].list[Part::kValidation].size(), 8u);
  const ImageList& novel = (*parts)[2].list;
  EXPECT_EQ(novel[Part::kTest].size(), 8u);
  const std::string& name = novel.classes[0];
  EXPECT_EQ(novel[Part::kTest][0].name, "Dataset/" + name + "/" + name + "00000001.jpg");
  EXPECT_EQ(read_image_header(file_bytes(novel.root / novel[Part::kTest][0].name)).width, 24);
  // All of them, to train on before a test on other data.
  source.candidates = {{{"all.json"}, {}, {"other"}}};
  folder.add("data/other/bird/1.jpg");
  const auto all = list_few_shot(source);
  ASSERT_TRUE(all) << all.errors().front().message;
  EXPECT_EQ((*all)[0].list[Part::kTrain].size(), 36u);
  EXPECT_EQ((*all)[0].list.classes.size(), 9u);
}

TEST(MakeMiniImagenet, EachPartNeedsAClass) {
  const DrawingFolder folder;
  EXPECT_REFUSED(make_mini_imagenet(folder / "a", {.classes = 2, .per_class = 4, .size = 16}),
                 kNotAllowedValue, "/make/classes", "2 classes", "three");
}

}  // namespace
}  // namespace stages
