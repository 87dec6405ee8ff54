#include "stages/data/image_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/image_lists.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ImageTableList : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    write_bytes(folder_ / name, {text.begin(), text.end()});
  }
  /// Writes the table, and an empty file for each image named at the beginning of a row.
  void write_table(const std::string& text) const {
    write("data/table.csv", text);
    std::istringstream lines(text.substr(text.find('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      const std::string path = line.substr(0, line.find(','));
      if (path.ends_with(".jpg") && !path.starts_with('/') && path.find("..") == path.npos)
        write(path, "");
    }
  }
  void set_captions(const std::vector<std::string>& texts) {
    templates_.clear();
    for (const std::string& text : texts) templates_.emplace_back(text);
    table_.captions = templates_;
  }
  ImageList list() {
    auto list = list_image_table(table_);
    EXPECT_TRUE(list) << (list ? "" : list.errors().front().message);
    return list ? *std::move(list) : ImageList{};
  }
  runner::Diagnostics errors() const {
    return refusals_of([&] { return list_image_table(table_); });
  }

  DrawingFolder folder_;
  ImageTable table_ = {.root = folder_.path(),
                       .file = folder_ / "data/table.csv",
                       .image = "image_path",
                       .label = "make"};
  std::vector<CaptionTemplate> templates_;
};

TEST_F(ImageTableList, ListsTheImagesInTheOrderOfTheRows) {
  write_table("image_path,year,make\ncars/b.jpg,2011,BMW\ncars/a.jpg,2012,Audi\nc.jpg,,BMW\n");
  const ImageList found = list();
  EXPECT_EQ(found.root, folder_.path());
  EXPECT_THAT(found.classes, ElementsAre("Audi", "BMW"));
  EXPECT_THAT(labeled_names(found[Part::kTrain]),
              ElementsAre("1 cars/b.jpg", "0 cars/a.jpg", "1 c.jpg"));
  EXPECT_FALSE(found.divided);
  EXPECT_FALSE(found.annotations.empty());
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST_F(ImageTableList, SpacesAroundFieldsAreIgnoredAndWindowsPathsAreAccepted) {
  write_table("image_path , make\n./cars//a.jpg, Audi \n\"cars\\b.jpg\",Audi\n");
  write("cars/b.jpg", "");
  const ImageList found = list();
  EXPECT_THAT(labeled_names(found[Part::kTrain]), ElementsAre("0 cars/a.jpg", "0 cars/b.jpg"));
  EXPECT_THAT(found.classes, ElementsAre("Audi"));
}

TEST_F(ImageTableList, CaptionsCanUseColumns) {
  set_captions({"a {make} {model}", "the {model}"});
  write_table(
      "image_path,make,model,price\na.jpg,Audi,TT,1\nb.jpg,Audi,\"A4, long\",2\nc.jpg,Audi,TT,3\n");
  const ImageList found = list();
  EXPECT_THAT(found.facts.fields, ElementsAre("make", "model"));
  EXPECT_THAT(found.facts.rows,
              ElementsAre(ElementsAre("Audi", "TT"), ElementsAre("Audi", "A4, long")));
  EXPECT_EQ(found[Part::kTrain][0].facts, 0);
  EXPECT_EQ(found[Part::kTrain][1].facts, 1);
  EXPECT_EQ(found[Part::kTrain][2].facts, 0);
}

TEST_F(ImageTableList, PartColumnSplitsTheImages) {
  table_.part = "part";
  write_table(
      "image_path,make,part\na.jpg,Audi,test\nb.jpg,BMW,train\nc.jpg,Audi,validation\nd.jpg,Audi,"
      "train\n");
  const ImageList found = list();
  EXPECT_TRUE(found.divided);
  EXPECT_THAT(labeled_names(found[Part::kTrain]), ElementsAre("1 b.jpg", "0 d.jpg"));
  EXPECT_THAT(labeled_names(found[Part::kValidation]), ElementsAre("0 c.jpg"));
  EXPECT_THAT(labeled_names(found[Part::kTest]), ElementsAre("0 a.jpg"));
}

TEST_F(ImageTableList, UnknownPartIsAnError) {
  table_.part = "part";
  write_table("image_path,make,part\na.jpg,Audi,val\nb.jpg,BMW,\n");
  EXPECT_ALL_REFUSED(errors(), {kBadAnnotations, "/table", {"line 2", "val"}},
                     {kBadAnnotations, "/table", {"line 3", "''"}});
}

TEST_F(ImageTableList, GroupColumnKeepsImagesTogether) {
  write_table("image_path,make,patient\n1.jpg,a,p1\n2.jpg,b, p1\n3.jpg,b,p2\n");
  table_.group = "patient";
  const ImageList images = list();
  EXPECT_EQ(images[Part::kTrain][1].patient, "p1");
  EXPECT_EQ(images[Part::kTrain][2].patient, "p2");
}

TEST_F(ImageTableList, ImageWithoutAGroupIsAnError) {
  write_table("image_path,make,patient\n1.jpg,a,p1\n2.jpg,b,\n");
  table_.group = "patient";
  EXPECT_REFUSED(errors(), kBadAnnotations, "/table", "line 3",
                 "it has no value in the column 'patient'");
}

TEST_F(ImageTableList, GroupInTwoPartsIsReported) {
  write_table(
      "image_path,make,patient,part\n1.jpg,a,p1,train\n2.jpg,a,p1,test\n3.jpg,a,p2,train\n");
  table_.group = "patient";
  table_.part = "part";
  EXPECT_THAT(
      list().notes,
      ElementsAre(
          "images of 1 group are in more than one part, so results may be too optimistic: 'p1'"));
}

TEST_F(ImageTableList, MissingTrainingImagesAreRejected) {
  table_.part = "part";
  write_table("image_path,make,part\na.jpg,Audi,test\n");
  const auto list = list_image_table(table_);
  ASSERT_TRUE(list) << "an evaluation alone needs no training images";
  ASSERT_TRUE(list->no_train);
  EXPECT_EQ(list->no_train->pointer, "/part");
}

TEST_F(ImageTableList, SmallClassesAreOmittedAndCounted) {
  table_.minimum_per_class = 2;
  // Images of omitted classes may be missing.
  write_table("image_path,make\na.jpg,Audi\nb.jpg,BMW\nc.jpg,Audi\n");
  fs::remove(folder_ / "b.jpg");
  const ImageList found = list();
  EXPECT_THAT(found.classes, ElementsAre("Audi"));
  EXPECT_THAT(labeled_names(found[Part::kTrain]), ElementsAre("0 a.jpg", "0 c.jpg"));
  EXPECT_THAT(
      found.notes,
      ElementsAre("1 class with fewer than 2 images is left out, dropping 1 image: 'BMW' has 1"));
  write_table("image_path,make\na.jpg,Audi\nb.jpg,BMW\nc.jpg,Audi\nd.jpg,Fiat\n");
  EXPECT_THAT(list().notes,
              ElementsAre("2 classes with fewer than 2 images are left out, dropping 2 "
                          "images: 'BMW' has 1, 'Fiat' has 1"));
}

TEST_F(ImageTableList, TableWithOnlySmallClassesIsRejected) {
  table_.minimum_per_class = 3;
  write_table("image_path,make\na.jpg,Audi\nb.jpg,BMW\nc.jpg,Audi\n");
  EXPECT_REFUSED(errors(), kTooFewSamples, "/minimum_per_class", "2 classes", "3 images",
                 "'Audi' has 2, 'BMW' has 1");
}

TEST_F(ImageTableList, ImageListedTwiceIsRejectedWithItsLines) {
  write_table("image_path,make\na.jpg,Audi\nb.jpg,BMW\n./a.jpg,BMW\n");
  EXPECT_REFUSED(errors(), kBadAnnotations, "/table", "line 4: 'a.jpg'", "line 2");
}

TEST_F(ImageTableList, UpToTenMissingImagesAreListedWithTheirLines) {
  std::string text = "image_path,make\nthere.jpg,Audi\n";
  for (int i = 0; i < 12; ++i)
    text += "gone" + std::to_string(10 + i) + ".jpg," + (i % 2 == 0 ? "BMW" : "Audi") + "\n";
  write("data/table.csv", text);
  write("there.jpg", "");
  EXPECT_REFUSED(errors(), kMissingImage, "/root", "12 of 13", "'gone10.jpg' (line 3)",
                 "'gone19.jpg' (line 12) and 2 more");
}

TEST_F(ImageTableList, EmptyFieldsAreErrorsAtTheirLines) {
  set_captions({"a {make} {model}"});
  write_table("image_path,make,model\na.jpg,,TT\nb.jpg,BMW, \n,BMW,M3\n");
  EXPECT_ALL_REFUSED(errors(), {kBadAnnotations, "/table", {"line 2", "'make'"}},
                     {kBadAnnotations, "/table", {"line 2", "'make', which the caption"}},
                     {kBadAnnotations, "/table", {"line 3", "'model', which the caption"}},
                     {kBadAnnotations, "/table", {"line 4: ''"}});
}

TEST_F(ImageTableList, PathsOutsideTheRootAreErrors) {
  write_table("image_path,make\n../a.jpg,Audi\n/b.jpg,BMW\nc.txt,BMW\nd/../e.jpg,BMW\n");
  EXPECT_ALL_REFUSED(errors(), {kBadAnnotations, "/table", {"line 2: '../a.jpg'"}},
                     {kBadAnnotations, "/table", {"line 3: '/b.jpg'"}},
                     {kBadAnnotations, "/table", {"line 4: 'c.txt'"}});
}

TEST_F(ImageTableList, MissingColumnsAreReported) {
  table_.part = "part";
  set_captions({"a {maker}"});
  write_table("path,make_name,year\na.jpg,Audi,2012\n");
  EXPECT_ALL_REFUSED(
      errors(),
      {kNotAllowedValue, "/image", {"'image_path'", "its columns are 'path', 'make_name', 'year'"}},
      {kNotAllowedValue, "/label", {"'make'"}}, {kNotAllowedValue, "/part", {"'part'"}},
      {kNotAllowedValue, "/caption", {"{maker}"}});
}

TEST_F(ImageTableList, DuplicateColumnIsRejectedIfUsed) {
  write_table("image_path,make,year,make,year\na.jpg,Audi,1,Audi,1\n");
  EXPECT_REFUSED(errors(), kBadAnnotations, "/table", "line 1", "make");
}

TEST_F(ImageTableList, TablesWithoutImagesAreRejected) {
  EXPECT_REFUSED(errors(), kMissingAnnotations, "/table", "data/table.csv");
  write("data/table.csv", "");
  EXPECT_REFUSED(errors(), kBadAnnotations, "/table", "empty");
  write("data/table.csv", "image_path,make\n");
  EXPECT_REFUSED(errors(), kBadAnnotations, "/table", "no image");
  write("data/table.csv", "\"image_path,make\n");
  EXPECT_REFUSED(errors(), kBadAnnotations, "/table", "line 1", "quotes");
  table_.root = folder_ / "gone";
  EXPECT_REFUSED(errors(), kMissingFolder, "/root", "gone");
}

TEST_F(ImageTableList, LinksOutOfTheRootAreFollowedOnRequest) {
  write_table("image_path,make\ncars/a.jpg,Audi\n");
  write("cars/b.jpg", "");
  table_.root = folder_ / "cars";
  write("data/table.csv", "image_path,make\nlink.jpg,Audi\n");
  write("outside.jpg", "");
  fs::create_symlink(folder_ / "outside.jpg", folder_ / "cars/link.jpg");
  EXPECT_REFUSED(errors(), kOutsideRoot, "", "'link.jpg'");
  table_.allow_outside = true;
  EXPECT_EQ(list()[Part::kTrain].size(), 1u);
}

constexpr const char *kComposedName = "caf\xc3\xa9", *kDecomposedName = "cafe\xcc\x81";

TEST_F(ImageTableList, PathsMatchFilesInAnyUnicodeForm) {
  for (const auto& [disk, table] :
       {std::pair(kComposedName, kDecomposedName), std::pair(kDecomposedName, kComposedName)}) {
    const std::string there = "a" + std::string(disk) + "/" + disk + ".jpg",
                      named = "a" + std::string(table) + "/" + table + ".jpg";
    write(there, "");
    write("data/table.csv", "image_path,make\n" + named + ",Audi\n");
    EXPECT_THAT(labeled_names(list()[Part::kTrain]), ElementsAre("0 " + there));
    write("data/table.csv", "image_path,make\n" + there + ",Audi\n" + named + ",Audi\n");
    EXPECT_REFUSED(errors(), kBadAnnotations, "/table", "listed twice", "line 2");
    fs::remove_all(folder_ / ("a" + std::string(disk)));
  }
}

TEST_F(ImageTableList, LabelsInDifferentUnicodeFormsAreOneClass) {
  write_table("image_path,make\na.jpg," + std::string(kDecomposedName) + "\nb.jpg," +
              kComposedName + "\nc.jpg,bar\n");
  const ImageList found = list();
  EXPECT_THAT(found.classes, ElementsAre("bar", kDecomposedName));
  EXPECT_THAT(labeled_names(found[Part::kTrain]), ElementsAre("1 a.jpg", "1 b.jpg", "0 c.jpg"));
}

}  // namespace
}  // namespace stages
