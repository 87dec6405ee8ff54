#include "stages/few_shot/few_shot_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/few_shot/make_mini_imagenet.h"
#include "tests/support/image_lists.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// Lists of files that need not be images, since none is opened.
class FewShotList : public testing::Test {
 protected:
  FewShotList() { fs::create_directory(root()); }
  fs::path root() const { return folder_ / "data"; }
  void write(const std::string& below, const std::string& text = "") const {
    write_bytes(root() / below, {text.begin(), text.end()});
  }
  /// Writes four class folders, a to d, with two images each, into `below`.
  void write_classes(const std::string& below) const {
    for (const char* const name : {"a", "b", "c", "d"}) {
      for (const char* const file : {"1.jpg", "2.jpg"}) write(below + name + "/" + file);
    }
  }
  FewShotSource source(const std::string& train, const std::string& validation,
                       const std::string& test) const {
    FewShotSource source{.root = root()};
    source.candidates[0] = {train};
    if (!validation.empty()) source.candidates[1] = {validation};
    source.candidates[2] = {test};
    return source;
  }
  std::array<FewShotPart, kSplitParts> listed(const FewShotSource& source) const {
    auto parts = list_few_shot(source);
    EXPECT_TRUE(parts) << (parts ? "" : parts.errors().front().message);
    return parts ? *std::move(parts) : std::array<FewShotPart, kSplitParts>();
  }
  static runner::Diagnostics errors(const FewShotSource& source) {
    return refusals_of([&] { return list_few_shot(source); });
  }
  static std::vector<std::string> names(const std::array<FewShotPart, kSplitParts>& parts,
                                        Part part) {
    return labeled_names(parts[static_cast<std::size_t>(part)].list[part]);
  }
  static const std::vector<std::string>& classes(const std::array<FewShotPart, kSplitParts>& parts,
                                                 Part part) {
    return parts[static_cast<std::size_t>(part)].list.classes;
  }

  DrawingFolder folder_;
};

constexpr const char* kTestList =
    R"({"label_names": ["d"], "image_names": ["pictures/d/1.jpg"], "image_labels": [0]})";

TEST_F(FewShotList, FilelistPathsAreRelativeToItsFolderAndSortedByClass) {
  write_classes("deep/pictures/");
  write("deep/base.json",
        R"({"label_names": ["c", "a"], "image_labels": [1, 0, 0, 1], "image_names":
        ["pictures/a/2.jpg", "../deep/./pictures/c/2.jpg", "pictures/c/1.jpg", ")" +
            (root() / "deep/pictures/a/1.jpg").string() + R"("]})");
  write("deep/novel.json", kTestList);
  const auto parts = listed(source("deep/base.json", "", "deep/novel.json"));
  EXPECT_THAT(names(parts, Part::kTrain),
              ElementsAre("0 deep/pictures/c/1.jpg", "0 deep/pictures/c/2.jpg",
                          "1 deep/pictures/a/1.jpg", "1 deep/pictures/a/2.jpg"));
  EXPECT_THAT(classes(parts, Part::kTrain), ElementsAre("c", "a"));
  EXPECT_THAT(names(parts, Part::kTest), ElementsAre("0 deep/pictures/d/1.jpg"));
  EXPECT_THAT(names(parts, Part::kValidation), IsEmpty());
  EXPECT_EQ(parts[0].list.root, root());
}

TEST_F(FewShotList, AbsolutePathsMatchThroughALinkToTheRoot) {
  write_classes("pictures/");
  write("novel.json", kTestList);
  write("base.json", R"({"image_names": [")" + (root() / "pictures/a/1.jpg").string() +
                         R"("], "image_labels": [0]})");
  fs::create_directory_symlink("data", folder_ / "link");
  FewShotSource by_link = source("base.json", "", "novel.json");
  by_link.root = folder_ / "link";
  EXPECT_THAT(names(listed(by_link), Part::kTrain), ElementsAre("0 pictures/a/1.jpg"));
}

TEST_F(FewShotList, TableFindsImagesInEachKnownFolder) {
  write("lists/test.csv", "filename,label\nd1.jpg,d\n");
  write("lists/train.csv", "filename,label\na2.jpg,a\nb1.jpg,b\na1.jpg,a\n");
  const FewShotSource tables = source("lists/train.csv", "", "lists/test.csv");
  for (const std::string folder :
       {"lists/", "lists/images/", "lists/Dataset/", "images/", "data/", ""}) {
    for (const bool has_classes : {true, false}) {
      const auto place = [&](const char* label) {
        return folder + (has_classes ? label + std::string("/") : "");
      };
      for (const char* const file : {"a1.jpg", "a2.jpg"}) write(place("a") + file);
      write(place("b") + "b1.jpg");
      write(place("d") + "d1.jpg");
      EXPECT_THAT(names(listed(tables), Part::kTrain),
                  ElementsAre("0 " + place("a") + "a1.jpg", "0 " + place("a") + "a2.jpg",
                              "1 " + place("b") + "b1.jpg"));
      for (const char* const label : {"a", "b", "d"}) fs::remove_all(root() / folder / label);
      for (const char* const file : {"a1.jpg", "a2.jpg", "b1.jpg", "d1.jpg"})
        fs::remove(root() / folder / file);
    }
  }
}

TEST_F(FewShotList, ClassNamesStandForTheirFolders) {
  // The layout in which CIFAR-FS is published; one of its classes is called train.
  write_classes("cifar100/data/");
  write("cifar100/data/train/1.png");
  write("cifar100/splits/bertinetto/train.txt", "train\nb\n\n");
  write("cifar100/splits/bertinetto/val.txt", "a");
  write("cifar100/splits/bertinetto/test.txt", " d \r\n");
  const std::string lists = "cifar100/splits/bertinetto/";
  const auto parts = listed(source(lists + "train.txt", lists + "val.txt", lists + "test.txt"));
  EXPECT_THAT(classes(parts, Part::kTrain), ElementsAre("b", "train"));
  EXPECT_THAT(names(parts, Part::kTrain),
              ElementsAre("0 cifar100/data/b/1.jpg", "0 cifar100/data/b/2.jpg",
                          "1 cifar100/data/train/1.png"));
  EXPECT_THAT(names(parts, Part::kValidation),
              ElementsAre("0 cifar100/data/a/1.jpg", "0 cifar100/data/a/2.jpg"));
  EXPECT_THAT(classes(parts, Part::kTest), ElementsAre("d"));
}

TEST_F(FewShotList, UnlistedFoldersAreIgnored) {
  write_classes("");
  write("lists/test.txt", "d\n");
  write("lists/train.txt", "b\na\n");
  fs::create_directory(root() / "empty");
  EXPECT_THAT(classes(listed(source("lists/train.txt", "", "lists/test.txt")), Part::kTrain),
              ElementsAre("a", "b"));
}

TEST_F(FewShotList, FirstExistingCandidateIsRead) {
  write_classes("pictures/");
  write("images/a/1.jpg");
  write("novel.json", kTestList);
  write("a.txt", "a");
  FewShotSource several = source("", "", "novel.json");
  several.candidates[0] = {"base.json", "a.txt", "pictures"};
  const auto parts = listed(several);
  EXPECT_EQ(parts[0].place, "a.txt");
  EXPECT_THAT(classes(parts, Part::kTrain), ElementsAre("a"));
}

TEST_F(FewShotList, AllFormsOfAGeneratedDatasetAreEquivalent) {
  make_mini_imagenet(root() / "made", {.classes = 8, .per_class = 3, .size = 8, .seed = 4});
  const auto lists = listed(source("made/base.json", "made/val.json", "made/novel.json"));
  const auto tables = listed(source("made/train.csv", "made/val.csv", "made/test.csv"));
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const auto sorted = [&](const auto& parts) {
      std::vector<std::string> result;
      for (const ImageFile& file : parts[static_cast<std::size_t>(part)].list[part])
        result.push_back(file.name);
      std::ranges::sort(result);
      return result;
    };
    EXPECT_EQ(sorted(lists), sorted(tables));
    EXPECT_THAT(sorted(lists), SizeIs(part == Part::kTrain ? 12u : 6u));
  }
  FewShotSource folder = source("made/Dataset", "made/Dataset", "made/Dataset");
  folder.classes = FolderClasses::kRandom;
  folder.split_seed = 4;
  EXPECT_THAT(names(listed(folder), Part::kTrain), SizeIs(12));
}

TEST_F(FewShotList, AlternatingSplitMatchesTheBirdSplit) {
  for (int i = 1; i <= 200; ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "CUB_200_2011/images/%03d.Bird_%d/1.jpg", i, i);
    write(name);
  }
  FewShotSource birds = source("CUB_200_2011/images", "CUB_200_2011/images", "CUB_200_2011/images");
  birds.classes = FolderClasses::kAlternating;
  const auto parts = listed(birds);
  EXPECT_THAT(classes(parts, Part::kTrain), SizeIs(100));
  EXPECT_THAT(classes(parts, Part::kValidation), SizeIs(50));
  EXPECT_THAT(classes(parts, Part::kTest), SizeIs(50));
  EXPECT_EQ(classes(parts, Part::kTrain)[1], "003.Bird_3");
  EXPECT_EQ(classes(parts, Part::kValidation)[1], "006.Bird_6");
  EXPECT_EQ(classes(parts, Part::kTest)[1], "008.Bird_8");
  EXPECT_EQ(names(parts, Part::kTest)[1], "1 CUB_200_2011/images/008.Bird_8/1.jpg");
}

TEST_F(FewShotList, RandomSplitDependsOnItsSeed) {
  for (const char name : std::string("abcdefghijkl")) write(std::string(1, name) + "/1.jpg");
  FewShotSource drawn = source(".", ".", ".");
  drawn.classes = FolderClasses::kRandom;
  const auto first = listed(drawn), again = listed(drawn);
  drawn.split_seed = 1;
  const auto other = listed(drawn);
  EXPECT_THAT(classes(first, Part::kTrain), SizeIs(6));
  EXPECT_THAT(classes(first, Part::kValidation), SizeIs(3));
  EXPECT_THAT(classes(first, Part::kTest), SizeIs(3));
  EXPECT_TRUE(std::ranges::is_sorted(classes(first, Part::kTrain)));
  EXPECT_EQ(names(first, Part::kTrain), names(again, Part::kTrain));
  EXPECT_NE(names(first, Part::kTrain), names(other, Part::kTrain));
}

TEST_F(FewShotList, AddingAClassMovesFewClassesOfARandomSplit) {
  for (const char name : std::string("bcdefghijkl")) write(std::string(1, name) + "/1.jpg");
  FewShotSource drawn = source(".", ".", ".");
  drawn.classes = FolderClasses::kRandom;
  const auto before = listed(drawn);
  write("a/1.jpg");
  const auto now = listed(drawn);
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const std::vector<std::string> were = classes(before, part), are = classes(now, part);
    const auto left = std::ranges::count_if(
        were, [&](const std::string& name) { return std::ranges::find(are, name) == are.end(); });
    EXPECT_LE(left, 1) << name(part);
  }
}

TEST_F(FewShotList, FolderWithTooFewClassesIsRejected) {
  for (const char* const image : {"a/1.jpg", "b/1.jpg", "c/1.jpg"}) write(image);
  FewShotSource few = source(".", "", ".");
  few.classes = FolderClasses::kAlternating;
  EXPECT_REFUSED(errors(few), kTooFewSamples, "/test", "3 classes", "four");
}

TEST_F(FewShotList, MissingFilesAreRejected) {
  write_classes("");
  FewShotSource missing = source("base.json", "val.json", "d");
  missing.candidates[1].emplace_back("val.csv");
  runner::Diagnostics found = errors(missing);
  found.resize(std::min<std::size_t>(found.size(), 2));
  EXPECT_ALL_REFUSED(found, {kMissingAnnotations, "/train", {"base.json'", "data fetch cub200"}},
                     {kMissingAnnotations, "/validation", {"val.json', nor '", "val.csv'"}});
  missing.root = root() / "gone";
  EXPECT_REFUSED(errors(missing), kMissingFolder, "/root", "gone");
}

TEST_F(FewShotList, UnknownFileFormatIsRejected) {
  write_classes("pictures/");
  write("novel.json", kTestList);
  write("base.mat");
  EXPECT_REFUSED(errors(source("base.mat", "", "novel.json")), kNotAllowedValue, "/train",
                 "base.mat");
}

TEST_F(FewShotList, ClassWithoutImagesIsRejected) {
  write_classes("pictures/");
  write("novel.json", kTestList);
  write("train/a/1.jpg");
  write("train/b/notes.txt");
  EXPECT_REFUSED(errors(source("train", "", "novel.json")), kEmptyClass, "/train",
                 "'b'; 1 file ignored: 1 .txt");
  write("empty.json", R"({"image_names": [], "image_labels": []})");
  write("empty.csv", "filename,label\n");
  write("empty.txt", "\n");
  for (const std::string list : {"empty.json", "empty.csv", "empty.txt"})
    EXPECT_REFUSED(errors(source(list, "", "novel.json")), kBadAnnotations, "/train", list);
}

TEST_F(FewShotList, UpToTenMissingFilesAreListed) {
  write_classes("pictures/");
  write("novel.json", kTestList);
  std::string text = "filename,label\n1.jpg,a\n";
  for (int i = 10; i < 22; ++i) text += std::to_string(i) + ".jpg,a\n";
  write("pictures/train.csv", text);
  EXPECT_REFUSED(errors(source("pictures/train.csv", "", "novel.json")), kMissingImage, "/train",
                 "12 of 13 images", "'pictures/a/10.jpg'", "'pictures/a/19.jpg' and 2 more");
}

TEST_F(FewShotList, ClassWithoutAFolderIsRejected) {
  write_classes("pictures/");
  write("novel.json", kTestList);
  write("train.txt", "a\nx\n../b\na\n");
  EXPECT_ALL_REFUSED(errors(source("train.txt", "", "novel.json")),
                     {kBadAnnotations, "/train", {"train.txt', line 3"}},
                     {kBadAnnotations, "/train", {"line 4", "line 1"}});
  write("data/a/1.jpg");
  write("train.txt", "a\nx\n");
  EXPECT_REFUSED(errors(source("train.txt", "", "novel.json")), kBadAnnotations, "/train", "line 2",
                 "data/x'");
}

TEST_F(FewShotList, ImagesOutsideTheRootNeedPermission) {
  write_classes("pictures/");
  write("novel.json", kTestList);
  folder_.add("elsewhere/1.jpg");
  write("base.json", R"({"image_names": ["../elsewhere/1.jpg", ")" +
                         (folder_ / "elsewhere/2.jpg").string() +
                         R"(", "pictures/a/1.jpg"], "image_labels": [0, 0, 0]})");
  FewShotSource outside = source("base.json", "", "novel.json");
  EXPECT_REFUSED(errors(outside), kOutsideRoot, "/train", "base.json", "2 of its 3",
                 "'../elsewhere/1.jpg'", (folder_ / "elsewhere/2.jpg").string());
  folder_.add("elsewhere/2.jpg");
  outside.allow_outside = true;
  EXPECT_THAT(names(listed(outside), Part::kTrain),
              ElementsAre("0 " + (folder_ / "elsewhere/1.jpg").string(),
                          "0 " + (folder_ / "elsewhere/2.jpg").string(), "0 pictures/a/1.jpg"));
}

TEST_F(FewShotList, LinksAndFoldersOutsideTheRootAreRejected) {
  write_classes("pictures/");
  write("novel.json", kTestList);
  folder_.add("elsewhere/a/1.jpg");
  fs::create_directory_symlink("../elsewhere", root() / "link");
  write("base.json", R"({"image_names": ["link/a/1.jpg"], "image_labels": [0]})");
  EXPECT_REFUSED(errors(source("base.json", "", "novel.json")), kOutsideRoot, "/train", "'link'",
                 "allow_outside: true");
  for (const std::string& folder : {std::string("link"), std::string("../elsewhere")}) {
    FewShotSource outside = source(folder, "", "novel.json");
    const std::string shown =
        folder == "link" ? (root() / "link").string() : (folder_ / "elsewhere").string();
    EXPECT_REFUSED(errors(outside), kOutsideRoot, "/train", shown);
    outside.allow_outside = true;
    EXPECT_THAT(classes(listed(outside), Part::kTrain), ElementsAre("a"));
  }
  fs::create_directory(root() / "train");
  fs::create_directory_symlink("../pictures/a", root() / "train/a");
  EXPECT_THAT(names(listed(source("train", "", "novel.json")), Part::kTrain),
              ElementsAre("0 train/a/1.jpg", "0 train/a/2.jpg"));
  fs::create_directory_symlink("../../elsewhere/a", root() / "train/b");
  EXPECT_REFUSED(errors(source("train", "", "novel.json")), kOutsideRoot, "/train", "'b'",
                 "allow_outside: true");
}

TEST_F(FewShotList, NonImagesAndDuplicatePathsAreRejected) {
  write_classes("pictures/");
  write("novel.json", kTestList);
  write("base.json",
        "{\"image_names\": [\"pictures/a/1.jpg\",\n\"pictures/./a/1.jpg\",\n\"passwd\", "
        "\"a\\u0000.jpg\"],"
        "\"image_labels\": [0, 1, 0, 0]}");
  EXPECT_ALL_REFUSED(errors(source("base.json", "", "novel.json")),
                     {kBadAnnotations, "/train", {"line 2", "'pictures/./a/1.jpg'", "line 1"}},
                     {kBadAnnotations, "/train", {"line 3: 'passwd'"}},
                     {kBadAnnotations, "/train", {"line 3: 'a?.jpg'"}});
}

TEST_F(FewShotList, ClassesInTwoPartsAreReported) {
  write_classes("pictures/");
  write("other/b/3.jpg");
  write("other/d/3.jpg");
  write("other/e/3.jpg");
  EXPECT_REFUSED(errors(source("pictures", "", "other")), kBadAnnotations, "/test",
                 "train and test", "2 classes 'b', 'd'");
  write("a.txt", "a");
  write("images/a/3.jpg");
  write("novel.json", R"({"image_names": ["other/e/3.jpg"], "image_labels": [0]})");
  const runner::Diagnostics found = errors(source("a.txt", "pictures", "novel.json"));
  ASSERT_FALSE(found.empty());
  EXPECT_REFUSED(runner::Diagnostics{found[0]}, kBadAnnotations, "/validation",
                 "train and validation", "'a'");
}

TEST_F(FewShotList, ClassNumbersAreLocalToTheirList) {
  write_classes("pictures/");
  write("base.json", R"({"image_names": ["pictures/a/1.jpg"], "image_labels": [0]})");
  write("val.json",
        R"({"label_names": ["0"], "image_names": ["pictures/b/1.jpg"], "image_labels": [0]})");
  write("novel.json", R"({"image_names": ["pictures/c/1.jpg"], "image_labels": [0]})");
  listed(source("base.json", "val.json", "novel.json"));
}

TEST_F(FewShotList, ImagesInTwoPartsAreReportedForAnyPath) {
  write_classes("pictures/");
  fs::create_directories(root() / "test/x");
  fs::create_symlink("../../pictures/a/1.jpg", root() / "test/x/soft.jpg");
  fs::create_hard_link(root() / "pictures/b/2.jpg", root() / "test/x/hard.jpg");
  EXPECT_REFUSED(errors(source("pictures", "", "test")), kBadAnnotations, "/test", "train and test",
                 "2 images 'test/x/");
}

}  // namespace
}  // namespace stages
