#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/data/image.h"
#include "stages/few_shot/few_shot_list.h"
#include "stages/few_shot/make_mini_imagenet.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

TEST(MakeMiniImagenet, IsReadLikeThePublishedDataset) {
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
  // all.json lists all images, for training before a test on other data.
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
                 kNotAllowedValue, "/make/classes", "2 classes", "at least 3");
}

}  // namespace
}  // namespace stages
