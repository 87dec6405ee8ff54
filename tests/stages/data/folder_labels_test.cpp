#include "stages/data/folder_labels.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

class FolderLabels : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& bytes) const { folder_.write(name, bytes); }
  runner::Result<ImageList> listed() const {
    auto list = list_images(folder_.path(), /*allow_outside=*/false);
    if (!list) return list;
    return with_folder_labels(*std::move(list));
  }
  /// Returns the name and labels of each image, such as "cat/1.jpg: 0 1".
  static std::vector<std::string> labeled(const ImageList& list, Part part) {
    std::vector<std::string> result;
    for (const ImageFile& image : list[part]) {
      std::string text = image.name + ":";
      for (const std::int64_t label : list.label_sets.at(static_cast<std::size_t>(image.label_set)))
        text += " " + std::to_string(label);
      result.push_back(text);
    }
    return result;
  }
  DrawingFolder folder_;
};

TEST_F(FolderLabels, ImageInSeveralFoldersIsOneSampleWithAllLabels) {
  add("cat/1.jpg", "one");
  add("dog/1.jpg", "one");
  add("dog/2.jpg", "two");
  add("owl/1.jpg", "one");
  add("owl/2.jpg", "two");
  add("owl/3.jpg", "three");
  const auto list = listed();
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->has_label_sets);
  EXPECT_THAT(list->classes, ElementsAre("cat", "dog", "owl"));
  EXPECT_THAT(labeled(*list, Part::kTrain),
              ElementsAre("cat/1.jpg: 0 1 2", "dog/2.jpg: 1 2", "owl/3.jpg: 2"));
  const std::vector<ImageFile>& images = (*list)[Part::kTrain];
  EXPECT_THAT(images[0].copies, ElementsAre("dog/1.jpg", "owl/1.jpg"));
  EXPECT_THAT(images[2].copies, IsEmpty());
  EXPECT_EQ(images[1].label, 1) << "the rarest of its labels";
  EXPECT_THAT(list->notes, Contains("2 of 3 images are in more than one class folder"));
}

TEST_F(FolderLabels, DifferentFilesWithTheSameNameAreRejectedWithBothPaths) {
  add("cat/1.jpg", "one");
  add("cat/2.jpg", "two");
  add("cat/3.jpg", "three");
  add("dog/1.jpg", "One");
  add("dog/2.jpg", "two more");
  add("dog/3.jpg", "three");
  EXPECT_REFUSED(listed(), kBadAnnotations, "/multi_label",
                 "differ: 'cat/1.jpg' and 'dog/1.jpg', 'cat/2.jpg' and 'dog/2.jpg'",
                 "multi_label: false");
}

TEST_F(FolderLabels, FilesInDifferentPartsAreDifferentImages) {
  add("train/cat/1.jpg", "one");
  add("train/dog/2.jpg", "two");
  add("test/cat/2.jpg", "three");
  add("test/dog/2.jpg", "three");
  const auto list = listed();
  ASSERT_TRUE(list);
  EXPECT_THAT(labeled(*list, Part::kTrain),
              ElementsAre("train/cat/1.jpg: 0", "train/dog/2.jpg: 1"));
  EXPECT_THAT(labeled(*list, Part::kTest), ElementsAre("test/cat/2.jpg: 0 1"));
}

TEST_F(FolderLabels, ExtensionIsPartOfTheName) {
  add("cat/1.jpg", "one");
  add("dog/1.png", "one");
  const auto list = listed();
  ASSERT_TRUE(list);
  EXPECT_THAT(labeled(*list, Part::kTrain), ElementsAre("cat/1.jpg: 0", "dog/1.png: 1"));
}

TEST_F(FolderLabels, LinkToAFileIsTheSameImage) {
  add("cat/1.jpg", "one");
  add("dog/2.jpg", "two");
  std::filesystem::create_symlink("../cat/1.jpg", folder_ / "dog/1.jpg");
  const auto list = listed();
  ASSERT_TRUE(list);
  EXPECT_THAT(labeled(*list, Part::kTrain), ElementsAre("cat/1.jpg: 0 1", "dog/2.jpg: 1"));
}

}  // namespace
}  // namespace stages
