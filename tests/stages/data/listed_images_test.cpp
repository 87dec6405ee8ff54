#include "stages/data/annotation_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/image_lists.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ListedImagesTest : public testing::Test {
 protected:
  ListedImages filelist(const std::string& text) { return read(text, &read_filelist); }
  ListedImages table(const std::string& text) { return read(text, &read_split_csv); }
  /// What is wrong with it, with ROOT for the folder.
  std::vector<std::string> faults(const std::string& text) {
    read(text, &read_filelist);
    return errors_below(folder_.path(), errors_);
  }
  std::vector<std::string> table_faults(const std::string& text) {
    read(text, &read_split_csv);
    return errors_below(folder_.path(), errors_);
  }
  ListedImages read(const std::string& text,
                    ListedImages (*read)(AnnotationFiles&, const std::string&)) {
    folder_.write("list", text);
    AnnotationFiles files(folder_.path(), "correct the list");
    ListedImages list = read(files, "list");
    errors_ = files.errors();
    return list;
  }
  TemporaryFolder folder_;
  runner::Diagnostics errors_;
};

TEST_F(ListedImagesTest, ClassesAreTheLabelsThatOccurInTheirOrder) {
  const ListedImages list = filelist(
      R"({"label_names": ["ant", "bee", "cat", "dog"], "image_names": ["/a.jpg", "b.jpg", "c.jpg"],
          "image_labels": [3, 1, 3]})");
  EXPECT_THAT(list.classes, ElementsAre("bee", "dog"));
  EXPECT_THAT(list.labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(list.paths, ElementsAre("/a.jpg", "b.jpg", "c.jpg"));
  EXPECT_THAT(list.lines, ElementsAre(1u, 1u, 1u));
  EXPECT_TRUE(list.is_named);
  EXPECT_THAT(errors_, IsEmpty());
}

TEST_F(ListedImagesTest, AsManyNamesAsLabelsAreTheirs) {
  // As for CIFAR-FS: its last list numbers from 80.
  const ListedImages list = filelist(
      R"({"label_names": ["ant", "bee"], "image_names": ["a.jpg", "b.jpg"], "image_labels": [81, 80]})");
  EXPECT_THAT(list.classes, ElementsAre("ant", "bee"));
  EXPECT_THAT(list.labels, ElementsAre(1, 0));
}

TEST_F(ListedImagesTest, WithoutNamesClassesAreCalledByTheirNumbers) {
  for (const char* const names : {R"("label_names": [],)", ""}) {
    const ListedImages list =
        filelist(std::string("{") + names +
                 R"("image_names": ["a.jpg", "b.jpg"], "image_labels": [7, 70]})");
    EXPECT_THAT(list.classes, ElementsAre("7", "70"));
    EXPECT_FALSE(list.is_named);
  }
}

TEST_F(ListedImagesTest, OtherKeysOfAnyFormArePassedOver) {
  const ListedImages list = filelist(
      R"({"note": {"image_names": [1, {"a": [null]}]}, "more": [[true]], "image_names": ["a.jpg"], "size": 1.5,
          "image_labels": [0]})");
  EXPECT_THAT(list.paths, ElementsAre("a.jpg"));
  EXPECT_THAT(errors_, IsEmpty());
}

TEST_F(ListedImagesTest, TooFewNamesForTheLabels) {
  EXPECT_THAT(
      faults(
          R"({"label_names": ["ant"], "image_names": ["a.jpg", "b.jpg", "c.jpg"], "image_labels": [0, 1, 4]})"),
      ElementsAre("E0612: 'ROOT/list': its 1 label_names do not fit its labels: 3 occur, the "
                  "largest is 4"));
  EXPECT_EQ(errors_.front().help, "correct the list");
}

TEST_F(ListedImagesTest, ListsOfDifferentLength) {
  EXPECT_THAT(
      faults(R"({"image_names": ["a.jpg", "b.jpg"], "image_labels": [0]})"),
      ElementsAre(
          "E0612: 'ROOT/list': it has 2 image_names and 1 image_labels: each image has one label"));
}

TEST_F(ListedImagesTest, LabelsThatAreNoWholeNumbersAreNamedWithTheirLines) {
  EXPECT_THAT(faults("{\"image_names\": [\"a.jpg\"],\n\"image_labels\": [\n0,\n1.5\n, \"2\", "
                     "-1,\nnull, 1e99999,"
                     " 99999999999]}"),
              ElementsAre("E0612: 'ROOT/list', line 4: image_labels[1] is 1.5, and a label is a "
                          "whole number from 0 to "
                          "1000000000",
                          "E0612: 'ROOT/list', line 5: image_labels[2] is '2', and a label is a "
                          "whole number from 0 to "
                          "1000000000",
                          "E0612: 'ROOT/list', line 5: image_labels[3] is -1, and a label is a "
                          "whole number from 0 to "
                          "1000000000",
                          "E0612: 'ROOT/list', line 6: image_labels[4] is null, and a label is a "
                          "whole number from 0 to "
                          "1000000000",
                          "E0612: 'ROOT/list', line 6: it is not JSON"));
}

TEST_F(ListedImagesTest, WhatIsNotOfThatForm) {
  const char* const form =
      R"(it is not of the form {"label_names": [], "image_names": [], "image_labels": []})";
  for (const char* const text : {"[]", "3", "\"a\"", "null"})
    EXPECT_THAT(faults(text), ElementsAre(std::string("E0612: 'ROOT/list', line 1: ") + form))
        << text;
  EXPECT_THAT(faults("{}"), ElementsAre("E0612: 'ROOT/list', line 1: it has no 'image_names'",
                                        "E0612: 'ROOT/list', line 1: it has no 'image_labels'"));
  EXPECT_THAT(faults("{\n\"image_names\": {}}"),
              ElementsAre("E0612: 'ROOT/list', line 2: its 'image_names' is not a list"));
  EXPECT_THAT(faults("{\"image_names\": [],\n\"image_names\": [], \"image_labels\": []}"),
              ElementsAre("E0612: 'ROOT/list', line 2: 'image_names' appears twice"));
  EXPECT_THAT(faults(R"({"image_labels": [0], "image_names": [7]})"),
              ElementsAre("E0612: 'ROOT/list', line 1: image_names[0] is 7 and not a text"));
  EXPECT_THAT(faults(R"({"image_labels": [[0]], "image_names": []})"),
              ElementsAre("E0612: 'ROOT/list', line 1: image_labels[0] is not a number"));
  EXPECT_THAT(
      faults(R"({"label_names": ["a\nb"], "image_labels": [0], "image_names": ["a.jpg"]})"),
      ElementsAre(
          "E0612: 'ROOT/list', line 1: label_names[0] is not a name of 1 to 1000 printable bytes"));
  EXPECT_THAT(
      faults(
          R"({"label_names": ["a", "a"], "image_labels": [0, 1], "image_names": ["a.jpg", "b.jpg"]})"),
      ElementsAre("E0612: 'ROOT/list': the labels 0 and 1 are both called 'a'"));
}

TEST_F(ListedImagesTest, BrokenJsonIsToldByItsLine) {
  EXPECT_THAT(faults("{\"image_names\": [\n\"a.jpg\",\n"),
              ElementsAre("E0612: 'ROOT/list', line 2: it is not JSON"));
  EXPECT_THAT(faults(""), ElementsAre("E0612: 'ROOT/list', line 1: it is not JSON"));
  EXPECT_THAT(faults("{\"image_names\": [\"\xff.jpg\"]}"),
              ElementsAre("E0612: 'ROOT/list', line 1: it is not JSON"));
  EXPECT_THAT(faults(R"({"other": )" + std::string(200'000, '[')),
              ElementsAre("E0612: 'ROOT/list', line 1: it is nested too deeply"));
}

TEST_F(ListedImagesTest, TableHasItsColumnsInAnyOrderAndItsLabelsSorted) {
  const ListedImages list = table(
      "\xef\xbb\xbf,label,filename\r\n0,\"dog, wet\",\"a \"\"1\"\".jpg\"\r\n1,cat,b.jpg\r\n\r\n");
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_THAT(list.classes, ElementsAre("cat", "dog, wet"));
  EXPECT_THAT(list.paths, ElementsAre("a \"1\".jpg", "b.jpg"));
  EXPECT_THAT(list.labels, ElementsAre(1, 0));
  EXPECT_THAT(list.lines, ElementsAre(2u, 3u));
}

TEST_F(ListedImagesTest, FaultsOfATable) {
  EXPECT_THAT(
      table_faults("a.jpg,cat\nb.jpg,dog\n"),
      ElementsAre(
          "E0612: 'ROOT/list', line 1: it does not name the columns 'filename' and 'label'"));
  EXPECT_THAT(table_faults("filename,label\na.jpg\n\"b.jpg,cat\nc.jpg,../cat\nd.jpg,\n"),
              ElementsAre("E0612: 'ROOT/list', line 2: it has 1 fields, but there are 2 columns",
                          "E0612: 'ROOT/list', line 3: its quotes do not match",
                          "E0612: 'ROOT/list', line 4: its label cannot be the name of a folder",
                          "E0612: 'ROOT/list', line 5: its label cannot be the name of a folder"));
}

}  // namespace
}  // namespace stages
