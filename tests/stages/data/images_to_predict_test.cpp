#include "stages/data/images_to_predict.h"

#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ImageParts : public testing::Test {
 protected:
  std::string path(const std::string& below) const { return (folder_ / below).string(); }
  runner::Diagnostics errors(const std::vector<std::string>& below) const {
    std::vector<std::string> paths;
    for (const std::string& one : below) paths.push_back(path(one));
    return refusals_of([&] { return list_images(paths); });
  }
  static ImageDatasetOptions small() {
    ImageDatasetOptions options;
    options.image_size = 8;
    return options;
  }
  DrawingFolder folder_;
};

TEST_F(ImageParts, FolderIsSearchedRecursivelyAndSortedByName) {
  for (const char* name :
       {"a/2.jpg", "a/1.PNG", "a/b/3.jpeg", "a/.hidden.jpg", "a/.b/4.jpg", "a/b/4.gif", "5.jpg"})
    folder_.add(name);
  std::ofstream(path("a/notes.txt")) << "no image";
  fs::create_directory_symlink(path("a/b"), path("a/again"));
  const auto files = list_images({path("5.jpg"), path("a")});
  ASSERT_TRUE(files);
  EXPECT_THAT(files->files, ElementsAre(path("5.jpg"), path("a/1.PNG"), path("a/2.jpg"),
                                        path("a/b/3.jpeg"), path("a/b/4.gif")));
  EXPECT_EQ(files->not_taken.text(),
            "1 file ignored: 1 .txt; 1 hidden file; 1 folder not searched; 1 hidden folder");
}

TEST_F(ImageParts, ExplicitFileIsAcceptedUnderAnyName) {
  folder_.add("picture");
  const auto files = list_images({path("picture")});
  ASSERT_TRUE(files);
  EXPECT_THAT(files->files, ElementsAre(path("picture")));
}

TEST_F(ImageParts, MissingFilesAndEmptyFoldersAreReportedTogether) {
  fs::create_directory(path("empty"));
  EXPECT_ALL_REFUSED(errors({"none.jpg", "empty"}), {kMissingImage, "", {path("none.jpg")}},
                     {kTooFewSamples, "", {path("empty")}});
}

TEST_F(ImageParts, DanglingLinksAndLinksOutOfTheFolderAreRejected) {
  folder_.add("a/1.jpg");
  folder_.add("b/2.jpg");
  fs::create_symlink(path("a/1.jpg"), path("a/inside.jpg"));
  EXPECT_THAT(errors({"a"}), testing::IsEmpty());
  fs::create_symlink(path("b/2.jpg"), path("a/outside.jpg"));
  fs::create_symlink(path("b/none.jpg"), path("a/nowhere.jpg"));
  runner::Diagnostics found = errors({"a"});  // in the order of the folder
  std::ranges::sort(found, {}, &runner::Diagnostic::code);
  EXPECT_ALL_REFUSED(found, {kMissingImage, "", {path("a/nowhere.jpg")}},
                     {kOutsideRoot, "", {path("a/outside.jpg"), "outside '" + path("a") + "'"}});
}

TEST_F(ImageParts, AreReadAsInEvaluation) {
  folder_.add("c/1.jpg", 3);
  const ImagesToPredict pictures({path("c/1.jpg")}, small(), /*skip=*/false);
  auto list = std::make_shared<ImageList>();
  list->root = path("");
  (*list)[Part::kTest] = {{"c/1.jpg", 0}};
  const ImageDataset evaluated(list, Part::kTest, small(), 1, nullptr);
  EXPECT_TRUE(pictures.sample(0, 0)->at("image").equal(evaluated.sample(0, 0)->at("image")));
  EXPECT_EQ(pictures.describe().size, 1);
  EXPECT_EQ(pictures.sample_name(0), path("c/1.jpg"));
}

TEST_F(ImageParts, UnreadableImageIsAnErrorOrIsReportedOnce) {
  folder_.add("1.jpg");
  std::ofstream(path("2.jpg")) << "no image";
  const std::vector<std::string> files = {path("1.jpg"), path("2.jpg")};
  EXPECT_REFUSED(ImagesToPredict(files, small(), /*skip=*/false).sample(0, 1), kUnsupportedImage,
                 "", path("2.jpg"), "--skip-corrupt");
  const ImagesToPredict skipping(files, small(), /*skip=*/true);
  EXPECT_TRUE(skipping.sample(0, 0));
  EXPECT_FALSE(skipping.take_unreadable(0));
  EXPECT_FALSE(skipping.sample(0, 1));
  const auto unreadable = skipping.take_unreadable(1);
  ASSERT_TRUE(unreadable);
  EXPECT_EQ(unreadable->code, runner::ErrorCode::kUnsupportedImage);
  EXPECT_THAT(unreadable->message, HasSubstr("2.jpg': it is not JPEG, PNG or WebP"));
  EXPECT_FALSE(skipping.take_unreadable(1));
}

}  // namespace
}  // namespace stages
