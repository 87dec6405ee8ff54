#include "stages/retina/fundus_list.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/data/image_split.h"
#include "stages/retina/retina.h"
#include "tests/support/image_lists.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class FundusListTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    write_bytes(folder_ / name, {text.begin(), text.end()});
  }
  runner::Diagnostics errors(FundusLayout layout) const {
    return refusals_of([&] { return list_fundus(folder_.path(), layout, false); });
  }
  static std::vector<std::string> names(const ImageList& list, Part part) {
    std::vector<std::string> names;
    for (const ImageFile& file : list[part]) names.push_back(file.name);
    return names;
  }
  static std::vector<std::int64_t> grades(const ImageList& list, Part part) {
    std::vector<std::int64_t> grades;
    for (const ImageFile& file : list[part]) grades.push_back(file.label);
    return grades;
  }
  DrawingFolder folder_;
};

TEST_F(FundusListTest, ReadsGradeFoldersInThreeParts) {
  for (const char* const name :
       {"train/0/b.jpg", "train/0/a.png", "train/4/17_left.jpeg", "val/1/x.jpg",
        "test/0/17_right.jpeg", "test/notes.txt", "train/0/notes.txt"})
    write(name, "");
  const auto list = list_fundus(folder_.path(), FundusLayout::kClassFolders, false);
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->divided);
  EXPECT_EQ(list->classes.size(), 5u);
  EXPECT_THAT(names(*list, Part::kTrain),
              ElementsAre("train/0/a.png", "train/0/b.jpg", "train/4/17_left.jpeg"));
  EXPECT_THAT(grades(*list, Part::kTrain), ElementsAre(0, 0, 4));
  EXPECT_THAT(grades(*list, Part::kValidation), ElementsAre(1));
  EXPECT_EQ((*list)[Part::kTest][0].patient, "17");
  EXPECT_EQ((*list)[Part::kTrain][2].patient, "17");
  EXPECT_EQ(list->not_taken.text(), "1 file ignored: 1 .txt");
}

TEST_F(FundusListTest, GradeFoldersWithoutPartsAreUndivided) {
  write("0/a.png", "");
  write("3/a.png", "");
  const auto list = list_fundus(folder_.path(), FundusLayout::kClassFolders, false);
  ASSERT_TRUE(list);
  EXPECT_FALSE(list->divided);
  EXPECT_THAT(grades(*list, Part::kTrain), ElementsAre(0, 3));
}

TEST_F(FundusListTest, NonGradeFoldersAreReported) {
  for (const char* const name :
       {"train/0/a.png", "train/5/a.png", "val/mild/a.png", "validation/0/a.png"})
    write(name, "");
  EXPECT_ALL_REFUSED(errors(FundusLayout::kClassFolders),
                     {kBadAnnotations, "", {"val", "validation"}},
                     {kLabelOutOfRange, "", {"train/5", "val/mild"}});
}

TEST_F(FundusListTest, FolderWithoutGradesOrPartsIsRejected) {
  write("cats/a.png", "");
  EXPECT_REFUSED(errors(FundusLayout::kClassFolders), kMissingFolder, "", "'train'", "0 to 4");
}

TEST_F(FundusListTest, ReadsAptosTableInRowOrder) {
  write("train.csv", "id_code,diagnosis\r\nb2, 4\nA1,0\n");
  write("train_images/b2.png", "");
  write("train_images/A1.png", "");
  const auto list = list_fundus(folder_.path(), FundusLayout::kAptos2019, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_FALSE(list->divided);
  EXPECT_THAT(names(*list, Part::kTrain),
              ElementsAre("train_images/b2.png", "train_images/A1.png"));
  EXPECT_THAT(grades(*list, Part::kTrain), ElementsAre(4, 0));
  EXPECT_EQ(list->annotations.size(), 64u);
}

TEST_F(FundusListTest, TableNamesMatchFilesInAnyUnicodeForm) {
  const std::string composed = "zo\xc3\xab", decomposed = "zoe\xcc\x88";
  write("train_images/" + composed + ".png", "");
  write("train.csv", "id_code,diagnosis\n" + decomposed + ",2\n");
  const auto list = list_fundus(folder_.path(), FundusLayout::kAptos2019, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_THAT(names(*list, Part::kTrain), ElementsAre("train_images/" + composed + ".png"));
  write("train.csv", "id_code,diagnosis\n" + decomposed + ",2\n" + composed + ",2\n");
  EXPECT_REFUSED(errors(FundusLayout::kAptos2019), kBadAnnotations, "", "line 3", "twice");
}

TEST_F(FundusListTest, EveryErrorInATableIsReportedWithItsLine) {
  write("train.csv", "id_code,diagnosis\na,0\nb,5\nc,\n../d,1\na,2\nf,10\ne\n");
  write("train_images/a.png", "");
  EXPECT_ALL_REFUSED(
      errors(FundusLayout::kAptos2019), {kBadAnnotations, "", {"line 3", "'b' is '5'"}},
      {kBadAnnotations, "", {"line 4", "'c' is ''"}}, {kBadAnnotations, "", {"line 5", "'../d'"}},
      {kBadAnnotations, "", {"line 6: 'a'", "line 2"}},
      {kBadAnnotations, "", {"line 7", "'f' is '10'"}},
      {kBadAnnotations, "", {"line 8", "1 fields"}});
}

TEST_F(FundusListTest, UpToTenMissingImagesAreListed) {
  std::string table = "id_code,diagnosis\nthere,1\n";
  for (int i = 0; i < 12; ++i) table += "m" + std::to_string(i) + ",0\n";
  write("train.csv", table);
  write("train_images/there.png", "");
  EXPECT_REFUSED(errors(FundusLayout::kAptos2019), kMissingImage, "", "12 of 13",
                 "'train_images/m0.png' (train.csv, line 3), 'train_images/m1.png'",
                 "'train_images/m9.png' (train.csv, line 12) and 2 more");
}

TEST_F(FundusListTest, TableWithMissingColumnsOrWithoutRowsIsRejected) {
  write("train.csv", "id,level\na,1\n");
  EXPECT_ALL_REFUSED(errors(FundusLayout::kAptos2019),
                     {kBadAnnotations, "", {"line 1", "'id_code'", "'id', 'level'"}},
                     {kBadAnnotations, "", {"'diagnosis'"}});
  write("train.csv", "id_code,diagnosis\n");
  EXPECT_REFUSED(errors(FundusLayout::kAptos2019), kBadAnnotations, "", "train.csv", "no image");
  write("train.csv", "");
  EXPECT_REFUSED(errors(FundusLayout::kAptos2019), kBadAnnotations, "", "train.csv", "empty");
}

TEST_F(FundusListTest, ReadsEyepacsWithItsTestPart) {
  write("trainLabels.csv", "image,level\n10_left,0\n10_right,2\n");
  EXPECT_FALSE(has_published_test(folder_.path(), FundusLayout::kEyepacs2015));
  write("retinopathy_solution.csv", "image,level,Usage\n7_left,1,Private\n");
  for (const char* const name : {"train/10_left.jpeg", "train/10_right.jpeg", "test/7_left.jpeg"})
    write(name, "");
  EXPECT_TRUE(has_published_test(folder_.path(), FundusLayout::kEyepacs2015));
  const auto list = list_fundus(folder_.path(), FundusLayout::kEyepacs2015, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_THAT(names(*list, Part::kTest), ElementsAre("test/7_left.jpeg"));
  EXPECT_EQ((*list)[Part::kTrain][1].patient, "10");
  EXPECT_THAT(grades(*list, Part::kTrain), ElementsAre(0, 2));
}

TEST_F(FundusListTest, PatientInBothTablesIsRejected) {
  write("trainLabels.csv", "image,level\n10_left,0\n");
  write("retinopathy_solution.csv", "image,level,Usage\n7_left,1,Private\n10_right,1,Public\n");
  EXPECT_REFUSED(errors(FundusLayout::kEyepacs2015), kBadAnnotations, "", "line 3", "'10_right'",
                 "trainLabels.csv, line 2");
}

TEST_F(FundusListTest, BothEyesOfAPatientAreInOnePart) {
  make_eyepacs_2015(folder_ / "made", {.classes = 5, .per_class = 40, .size = 16});
  auto list = list_fundus(folder_ / "made", FundusLayout::kEyepacs2015, false);
  ASSERT_TRUE(list);
  const std::size_t before = (*list)[Part::kTrain].size(), test = (*list)[Part::kTest].size();
  EXPECT_EQ(before + test, 200u);
  split(*list, {.train = 0.6, .validation = 0.4, .test = 0}, 3);
  EXPECT_EQ((*list)[Part::kTrain].size() + (*list)[Part::kValidation].size(), before);
  EXPECT_GT((*list)[Part::kValidation].size(), before / 4);
  EXPECT_EQ((*list)[Part::kTest].size(), test);
  std::set<std::string> trained;
  for (const ImageFile& file : (*list)[Part::kTrain]) trained.insert(file.patient);
  for (const ImageFile& file : (*list)[Part::kValidation])
    EXPECT_FALSE(trained.contains(file.patient)) << file.name;
  EXPECT_LT(trained.size(), (*list)[Part::kTrain].size());
}

}  // namespace
}  // namespace stages
