#include "stages/data/image_list.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "stages/data/image_split.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

std::vector<std::string> names(const std::vector<ImageFile>& files) {
  std::vector<std::string> result;
  for (const ImageFile& file : files)
    result.push_back(std::to_string(file.label) + " " + file.name);
  return result;
}

runner::Diagnostics errors(const fs::path& root, bool allow_outside = false) {
  return refusals_of([&] { return list_images(root, allow_outside); });
}

class ImageListTest : public testing::Test {
 protected:
  void touch(const std::string& below) const { write_bytes(folder_ / below, {}); }
  std::string root() const { return folder_.path().string(); }
  DrawingFolder folder_;
};

TEST_F(ImageListTest, ClassesAndFilesAreSortedByByte) {
  for (const char* const name : {"b/2.jpg", "b/10.PNG", "B/x.JpEg", "a/1.jpg", "a/notes.txt",
                                 "a/.hidden.jpg", "a/jpg", ".git/a.jpg", "top.jpg"})
    touch(name);
  touch("a/deeper/3.jpg");
  const auto list = list_images(root(), false);
  ASSERT_TRUE(list);
  EXPECT_THAT(list->classes, ElementsAre("B", "a", "b"));
  EXPECT_FALSE(list->divided);
  EXPECT_THAT(names((*list)[Part::kTrain]),
              ElementsAre("0 B/x.JpEg", "1 a/1.jpg", "2 b/10.PNG", "2 b/2.jpg"));
  EXPECT_EQ(list->not_taken.text(),
            "3 files ignored: 1 without an extension, 1 .jpg, 1 .txt; 1 hidden file; 1 folder not "
            "searched; 1 hidden folder");
}

TEST_F(ImageListTest, AllPartsUseTheLabelsOfTheTrainPart) {
  for (const char* const name : {"train/a/1.jpg", "train/b/1.jpg", "test/b/2.jpg", "more/a/3.jpg"})
    touch(name);
  const auto list = list_images(root(), false);
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->divided);
  EXPECT_THAT(names((*list)[Part::kTrain]), ElementsAre("0 train/a/1.jpg", "1 train/b/1.jpg"));
  EXPECT_THAT(names((*list)[Part::kTest]), ElementsAre("1 test/b/2.jpg"));
  EXPECT_THAT(names((*list)[Part::kValidation]), ElementsAre());
  EXPECT_THAT(list->ignored, ElementsAre("more"));
}

TEST_F(ImageListTest, PartsAreFoundByTheirUsualNames) {
  for (const std::string validation : {"val", "valid", "validation", "dev", "Val"}) {
    const DrawingFolder folder;
    for (const std::string& name :
         {std::string("Training/a/1.jpg"), validation + "/a/2.jpg", std::string("testing/a/3.jpg")})
      write_bytes(folder / name, {});
    const auto list = list_images(folder.path(), false);
    ASSERT_TRUE(list) << validation;
    EXPECT_THAT(names((*list)[Part::kTrain]), ElementsAre("0 Training/a/1.jpg"));
    EXPECT_THAT(names((*list)[Part::kValidation]), ElementsAre("0 " + validation + "/a/2.jpg"));
    EXPECT_THAT(names((*list)[Part::kTest]), ElementsAre("0 testing/a/3.jpg"));
    EXPECT_THAT(list->ignored, testing::IsEmpty());
    EXPECT_EQ(list->not_taken.text(), "");
  }
}

TEST_F(ImageListTest, TwoFoldersForOnePartAreRejected) {
  for (const char* const name : {"train/a/1.jpg", "val/a/1.jpg", "valid/a/1.jpg"}) touch(name);
  EXPECT_REFUSED(errors(root()), kBadAnnotations, "", "val", "valid");
}

TEST_F(ImageListTest, ClassMayHaveTheNameOfAPart) {
  for (const char* const name : {"train/1.jpg", "bus/1.jpg", "test/1.jpg"}) touch(name);
  const auto list = list_images(root(), false);
  ASSERT_TRUE(list);
  EXPECT_FALSE(list->divided);
  EXPECT_THAT(list->classes, ElementsAre("bus", "test", "train"));
}

TEST_F(ImageListTest, MissingTestFolderIsExplained) {
  for (const char* const name : {"train/a/1.jpg", "val/a/1.jpg"}) touch(name);
  const auto list = list_images(root(), false);
  ASSERT_TRUE(list && list->no_test);
  EXPECT_EQ(list->no_test->message,
            "'" + root() + "' has no 'test' folder next to 'train' and 'val'");
}

TEST_F(ImageListTest, ClassNamesMatchInAnyUnicodeForm) {
  for (const char* const name :
       {"train/caf\xc3\xa9/1.jpg", "train/b/1.jpg", "test/cafe\xcc\x81/1.jpg"})
    touch(name);
  const auto list = list_images(root(), false);
  ASSERT_TRUE(list);
  EXPECT_THAT(names((*list)[Part::kTest]), ElementsAre("1 test/cafe\xcc\x81/1.jpg"));
}

TEST_F(ImageListTest, FoldersAndPipesNamedLikeImagesAreSkipped) {
  touch("a/1.jpg");
  fs::create_directories(folder_ / "a/2.jpg");
  ASSERT_EQ(::mkfifo((folder_ / "a/3.jpg").c_str(), 0600), 0);
  const auto list = list_images(root(), false);
  ASSERT_TRUE(list);
  EXPECT_THAT(names((*list)[Part::kTrain]), ElementsAre("0 a/1.jpg"));
  EXPECT_EQ(list->not_taken.text(), "1 file ignored: 1 .jpg; 1 folder not searched");
}

TEST_F(ImageListTest, MissingFolderIsExplained) {
  EXPECT_REFUSED(errors("no/where"), kMissingFolder, "", "no/where");
  touch("file");
  EXPECT_EQ(errors(root() + "/file").size(), 1u);
}

TEST_F(ImageListTest, ClassFoldersThatAreNotUtf8AreListedOnce) {
  touch("caf\xe9/1.jpg");
  touch("caf\xe8/1.jpg");
  touch("tea/1.jpg");
  EXPECT_REFUSED(errors(root()), kBadAnnotations, "", "'caf\\xe8', 'caf\\xe9'");
}

TEST_F(ImageListTest, ClassFoldersWithControlCharactersAreReported) {
  touch("a\x1b[2J/1.jpg");
  touch("tea/1.jpg");
  EXPECT_REFUSED(errors(root()), kBadAnnotations, "", "a\\x1b[2J");
  touch("b\u202e/1.jpg");
  EXPECT_REFUSED(errors(root()), kBadAnnotations, "", "'a\\x1b[2J', 'b\\xe2\\x80\\xae'");
}

TEST_F(ImageListTest, ClassesThatDifferOnlyInCaseAreReported) {
  touch("Rose/1.jpg");
  touch("rose/1.jpg");
  touch("\xc3\x89toile/1.jpg");
  touch("\xc3\xa9toile/1.jpg");
  touch("tulip/1.jpg");
  EXPECT_THAT(
      list_images(root(), false)->notes,
      ElementsAre("class names that differ only in letter case or in the encoding of accents: "
                  "'Rose' and 'rose', '\xc3\x89toile' and '\xc3\xa9toile'"));
}

TEST_F(ImageListTest, FolderWithoutClassesIsRejected) {
  touch("1.jpg");
  EXPECT_REFUSED(errors(root()), kMissingFolder, "", "class folders");
}

TEST_F(ImageListTest, EveryEmptyClassIsListed) {
  for (const char* const name : {"a/1.jpg", "b/readme.txt", "c/.x.jpg"}) touch(name);
  EXPECT_REFUSED(errors(root()), kEmptyClass, "", "'b', 'c'", "1 .txt; 1 hidden");
}

TEST_F(ImageListTest, OnlyFolderWithClassFoldersIsSuggestedAsRoot) {
  for (const char* const name : {"images/a/1.jpg", "images/b/1.jpg"}) touch(name);
  EXPECT_REFUSED(errors(root()), kEmptyClass, "", "'images'", "set root to '", "/images'");
  touch("more/1.jpg");
  EXPECT_REFUSED(errors(root()), kEmptyClass, "", "'images'", "or remove the folder");
}

TEST_F(ImageListTest, ClassMissingFromTrainIsRejected) {
  for (const char* const name : {"train/a/1.jpg", "test/a/1.jpg", "test/z/1.jpg"}) touch(name);
  EXPECT_REFUSED(errors(root()), kLabelOutOfRange, "", "train", "test/z");
}

TEST_F(ImageListTest, TestPartWithoutATrainPartIsRejected) {
  touch("test/b/1.jpg");
  touch("validation/a/1.jpg");
  const auto list = list_images(root(), false);
  ASSERT_TRUE(list) << "an evaluation alone needs no training images";
  ASSERT_TRUE(list->no_train);
  EXPECT_EQ(list->no_train->message,
            "'" + root() + "' has a folder for validation or test but no 'train' folder");
  EXPECT_THAT(list->classes, ElementsAre("a", "b"));
  EXPECT_THAT(names((*list)[Part::kTest]), ElementsAre("1 test/b/1.jpg"));
}

TEST_F(ImageListTest, LinksOutOfTheRootAreRejectedUnlessAllowed) {
  const DrawingFolder elsewhere;
  elsewhere.add("x/1.jpg");
  touch("a/1.jpg");
  fs::create_symlink(elsewhere / "x/1.jpg", folder_ / "a/2.jpg");
  fs::create_symlink(elsewhere / "x", folder_ / "b");
  fs::create_symlink(folder_ / "a/1.jpg", folder_ / "a/3.jpg");
  EXPECT_REFUSED(errors(root()), kOutsideRoot, "", "b", "a/2.jpg");
  const auto list = list_images(root(), true);
  ASSERT_TRUE(list);
  EXPECT_THAT(names((*list)[Part::kTrain]),
              ElementsAre("0 a/1.jpg", "0 a/2.jpg", "0 a/3.jpg", "1 b/1.jpg"));
}

TEST_F(ImageListTest, LinkToASiblingWithTheSamePrefixIsOutside) {
  write_bytes(folder_ / "root/a/1.jpg", {});
  write_bytes(folder_ / "root-2/1.jpg", {});
  fs::create_symlink("../../root-2/1.jpg", folder_ / "root/a/2.jpg");
  EXPECT_EQ(errors(folder_ / "root").size(), 1u);
}

TEST_F(ImageListTest, DanglingLinkIsRejected) {
  touch("a/1.jpg");
  fs::create_symlink("gone.jpg", folder_ / "a/2.jpg");
  EXPECT_REFUSED(errors(root()), kMissingImage, "", "a/2.jpg");
}

ImageList flat_list(std::initializer_list<int> counts) {
  ImageList list;
  for (const int count : counts) {
    const auto label = static_cast<std::int64_t>(list.classes.size());
    list.classes.push_back("c" + std::to_string(label));
    for (int i = 0; i < count; ++i)
      list[Part::kTrain].push_back({list.classes.back() + "/" + std::to_string(1000 + i), label});
  }
  return list;
}

/// Counts the images of each class in a part.
std::vector<int> counts(const ImageList& list, Part part) {
  std::vector<int> result(list.classes.size());
  for (const ImageFile& file : list[part]) ++result[static_cast<std::size_t>(file.label)];
  return result;
}

TEST(Split, EveryClassIsSplitInTheSameRatio) {
  ImageList list = flat_list({60, 7, 100});
  split(list, {.train = 0.8, .validation = 0.0, .test = 0.2}, 1);
  EXPECT_THAT(counts(list, Part::kTrain), ElementsAre(48, 6, 80));
  EXPECT_THAT(counts(list, Part::kTest), ElementsAre(12, 1, 20));
}

TEST_F(ImageListTest, FingerprintCoversNamesLabelsAndContents) {
  touch("a/1.jpg");
  touch("b/2.jpg");
  const auto now = [&] { return fingerprint(*list_images(root(), false)); };
  const std::string first = now();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(now(), first);
  ImageList other = *list_images(root(), false);
  other[Part::kTrain][0].label = 1;
  EXPECT_NE(fingerprint(other), first);
  write_bytes(folder_ / "a/1.jpg", {1});
  const std::string longer = now();
  EXPECT_NE(longer, first);
  fs::last_write_time(folder_ / "a/1.jpg",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(now(), longer) << "only its modification time has changed";
  const auto time = fs::last_write_time(folder_ / "a/1.jpg");
  write_bytes(folder_ / "a/1.jpg", {2});
  fs::last_write_time(folder_ / "a/1.jpg", time);
  const std::string other_bytes = now();
  EXPECT_NE(other_bytes, longer) << "with its size and time kept";
  fs::rename(folder_ / "b/2.jpg", folder_ / "b/3.jpg");
  EXPECT_NE(now(), other_bytes);
}

TEST(Split, SharesThatSumToLessThanOneLeaveImagesUnused) {
  ImageList list = flat_list({100});
  split(list, {.train = 0.29, .validation = 0.1, .test = 0.11}, 1);
  EXPECT_THAT(counts(list, Part::kTrain), ElementsAre(29));
  EXPECT_THAT(counts(list, Part::kValidation), ElementsAre(10));
  EXPECT_THAT(counts(list, Part::kTest), ElementsAre(11));
}

TEST(Split, SmallClassesFillTrainThenTestThenValidation) {
  ImageList list = flat_list({1, 2, 3});
  split(list, {.train = 0.9, .validation = 0.05, .test = 0.05}, 1);
  EXPECT_THAT(counts(list, Part::kTrain), ElementsAre(1, 1, 1));
  EXPECT_THAT(counts(list, Part::kTest), ElementsAre(0, 1, 1));
  EXPECT_THAT(counts(list, Part::kValidation), ElementsAre(0, 0, 1));
}

TEST(Split, PartsAreDisjointAndDependOnTheSeed) {
  const auto divided = [](std::uint64_t seed) {
    ImageList list = flat_list({50, 50});
    split(list, {.train = 0.5, .validation = 0.2, .test = 0.3}, seed);
    return list;
  };
  const ImageList once = divided(1), again = divided(1), other = divided(2);
  std::set<std::string> all;
  for (const auto& part : once.parts) {
    for (const ImageFile& file : part) all.insert(file.name);
  }
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(names(once[Part::kTest]), names(again[Part::kTest]));
  EXPECT_NE(names(once[Part::kTest]), names(other[Part::kTest]));
}

/// Returns the part of each image.
std::map<std::string, Part> parts_by_name(const ImageList& list) {
  std::map<std::string, Part> result;
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest})
    for (const ImageFile& file : list[part]) result[file.name] = part;
  return result;
}

/// Counts the images of both lists that have moved to another part.
std::size_t moved(const std::map<std::string, Part>& before,
                  const std::map<std::string, Part>& now) {
  return static_cast<std::size_t>(std::ranges::count_if(before, [&](const auto& one) {
    const auto found = now.find(one.first);
    return found != now.end() && found->second != one.second;
  }));
}

TEST(Split, AddingOrRemovingAnImageMovesOnlyTheBoundaries) {
  constexpr std::size_t kMostMoved = 2 * 2;  // at the end of train and of validation
  const auto divided = [](ImageList list) {
    split(list, {.train = 0.6, .validation = 0.2, .test = 0.2}, 3);
    return parts_by_name(list);
  };
  const ImageList whole = flat_list({40, 40});
  const auto before = divided(whole);
  for (const std::size_t gone : {0, 1, 17, 39}) {
    ImageList less = whole;
    less[Part::kTrain].erase(less[Part::kTrain].begin() + static_cast<std::ptrdiff_t>(gone));
    const auto now = divided(less);
    EXPECT_LE(moved(before, now), kMostMoved) << "without image " << gone;
    for (const auto& [image, part] : now) {
      if (image.starts_with("c1/")) EXPECT_EQ(part, before.at(image)) << image;
    }
  }
  ImageList more = whole;
  more[Part::kTrain].insert(more[Part::kTrain].begin(), ImageFile{.name = "c0/0", .label = 0});
  EXPECT_LE(moved(before, divided(more)), kMostMoved);
}

TEST(Split, AddingAClassMovesNoImage) {
  const auto divided = [](ImageList list) {
    split(list, {.train = 0.6, .validation = 0.2, .test = 0.2}, 3);
    return parts_by_name(list);
  };
  const ImageList before = flat_list({20, 20});
  ImageList now = before;
  now.classes.insert(now.classes.begin(), "b");
  for (ImageFile& file : now[Part::kTrain]) ++file.label;
  now[Part::kTrain].insert(now[Part::kTrain].begin(), ImageFile{.name = "b/1", .label = 0});
  EXPECT_EQ(moved(divided(before), divided(now)), 0u);
}

TEST(Split, PatientsAreSplitByName) {
  const auto of_patients = [](int first) {
    ImageList list{.classes = {"0"}};
    for (int i = first; i < 30; ++i) {
      for (const char* const eye : {"left", "right"})
        list[Part::kTrain].push_back(
            {.name = std::to_string(i) + "_" + eye, .patient = "p" + std::to_string(i)});
    }
    split(list, {.train = 0.5, .validation = 0.0, .test = 0.5}, 5);
    return parts_by_name(list);
  };
  EXPECT_LE(moved(of_patients(0), of_patients(1)), 2u * 2u);  // two patients, each with both eyes
}

}  // namespace
}  // namespace stages
