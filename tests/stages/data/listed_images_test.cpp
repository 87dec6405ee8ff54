#include "stages/data/annotation_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/image_lists.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ListedImagesTest : public testing::Test {
 protected:
  ListedImages filelist(const std::string& text) { return read(text, &read_filelist); }
  ListedImages table(const std::string& text) { return read(text, &read_split_csv); }
  runner::Diagnostics faults(const std::string& text) {
    return read(text, &read_filelist), errors_;
  }
  runner::Diagnostics table_faults(const std::string& text) {
    return read(text, &read_split_csv), errors_;
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

TEST_F(ListedImagesTest, ClassesAreTheOccurringLabelsInOrder) {
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

TEST_F(ListedImagesTest, NamesMatchLabelsIfTheirCountsAreEqual) {
  // The labels in the last list of CIFAR-FS start at 80, for example.
  const ListedImages list = filelist(
      R"({"label_names": ["ant", "bee"], "image_names": ["a.jpg", "b.jpg"], "image_labels": [81, 80]})");
  EXPECT_THAT(list.classes, ElementsAre("ant", "bee"));
  EXPECT_THAT(list.labels, ElementsAre(1, 0));
}

TEST_F(ListedImagesTest, ClassesWithoutNamesAreNamedByNumber) {
  for (const char* const names : {R"("label_names": [],)", ""}) {
    const ListedImages list =
        filelist(std::string("{") + names +
                 R"("image_names": ["a.jpg", "b.jpg"], "image_labels": [7, 70]})");
    EXPECT_THAT(list.classes, ElementsAre("7", "70"));
    EXPECT_FALSE(list.is_named);
  }
}

TEST_F(ListedImagesTest, UnknownKeysAreIgnored) {
  const ListedImages list = filelist(
      R"({"note": {"image_names": [1, {"a": [null]}]}, "more": [[true]], "image_names": ["a.jpg"], "size": 1.5,
          "image_labels": [0]})");
  EXPECT_THAT(list.paths, ElementsAre("a.jpg"));
  EXPECT_THAT(errors_, IsEmpty());
}

TEST_F(ListedImagesTest, TooFewNamesAreRejected) {
  EXPECT_REFUSED(
      faults(
          R"({"label_names": ["ant"], "image_names": ["a.jpg", "b.jpg", "c.jpg"], "image_labels": [0, 1, 4]})"),
      kBadAnnotations, "", "1 label_names", "3 different labels", "largest is 4",
      "correct the list");
}

TEST_F(ListedImagesTest, ListsOfDifferentLengthsAreRejected) {
  EXPECT_REFUSED(faults(R"({"image_names": ["a.jpg", "b.jpg"], "image_labels": [0]})"),
                 kBadAnnotations, "", "2 image_names and 1 image_labels");
}

TEST_F(ListedImagesTest, NonIntegerLabelsAreReportedWithTheirLines) {
  EXPECT_ALL_REFUSED(
      faults("{\"image_names\": [\"a.jpg\"],\n\"image_labels\": [\n0,\n1.5\n, \"2\", "
             "-1,\nnull, 1e99999,"
             " 99999999999]}"),
      {kBadAnnotations, "", {"line 4: image_labels[1] is 1.5"}},
      {kBadAnnotations, "", {"line 5: image_labels[2] is '2'"}},
      {kBadAnnotations, "", {"line 5: image_labels[3] is -1"}},
      {kBadAnnotations, "", {"line 6: image_labels[4] is null"}},
      {kBadAnnotations, "", {"line 6: it is not JSON"}});
}

TEST_F(ListedImagesTest, UnsupportedJsonStructuresAreRejected) {
  for (const char* const text : {"[]", "3", "\"a\"", "null"})
    EXPECT_REFUSED(faults(text), kBadAnnotations, "", "line 1",
                   R"({"label_names": [], "image_names": [], "image_labels": []})")
        << text;
  EXPECT_ALL_REFUSED(faults("{}"), {kBadAnnotations, "", {"line 1", "image_names"}},
                     {kBadAnnotations, "", {"line 1", "image_labels"}});
  EXPECT_REFUSED(faults("{\n\"image_names\": {}}"), kBadAnnotations, "", "line 2",
                 "'image_names' is not");
  EXPECT_REFUSED(faults("{\"image_names\": [],\n\"image_names\": [], \"image_labels\": []}"),
                 kBadAnnotations, "", "line 2", "'image_names'");
  EXPECT_REFUSED(faults(R"({"image_labels": [0], "image_names": [7]})"), kBadAnnotations, "",
                 "line 1", "image_names[0] is 7");
  EXPECT_REFUSED(faults(R"({"image_labels": [[0]], "image_names": []})"), kBadAnnotations, "",
                 "line 1", "image_labels[0]");
  EXPECT_REFUSED(
      faults(R"({"label_names": ["a\nb"], "image_labels": [0], "image_names": ["a.jpg"]})"),
      kBadAnnotations, "", "line 1", "label_names[0]", "1000");
  EXPECT_REFUSED(
      faults(
          R"({"label_names": ["a", "a"], "image_labels": [0, 1], "image_names": ["a.jpg", "b.jpg"]})"),
      kBadAnnotations, "", "labels 0 and 1", "'a'");
}

TEST_F(ListedImagesTest, InvalidJsonIsReportedWithItsLine) {
  EXPECT_REFUSED(faults("{\"image_names\": [\n\"a.jpg\",\n"), kBadAnnotations, "", "line 2",
                 "JSON");
  EXPECT_REFUSED(faults(""), kBadAnnotations, "", "line 1", "JSON");
  EXPECT_REFUSED(faults("{\"image_names\": [\"\xff.jpg\"]}"), kBadAnnotations, "", "line 1",
                 "JSON");
  EXPECT_REFUSED(faults(R"({"other": )" + std::string(200'000, '[')), kBadAnnotations, "", "line 1",
                 "too deeply");
}

TEST_F(ListedImagesTest, TableColumnsMayHaveAnyOrderAndLabelsAreSorted) {
  const ListedImages list = table(
      "\xef\xbb\xbf,label,filename\r\n0,\"dog, wet\",\"a \"\"1\"\".jpg\"\r\n1,cat,b.jpg\r\n\r\n");
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_THAT(list.classes, ElementsAre("cat", "dog, wet"));
  EXPECT_THAT(list.paths, ElementsAre("a \"1\".jpg", "b.jpg"));
  EXPECT_THAT(list.labels, ElementsAre(1, 0));
  EXPECT_THAT(list.lines, ElementsAre(2u, 3u));
}

TEST_F(ListedImagesTest, ErrorsInATableAreReported) {
  EXPECT_REFUSED(table_faults("a.jpg,cat\nb.jpg,dog\n"), kBadAnnotations, "", "line 1", "filename",
                 "label");
  EXPECT_ALL_REFUSED(table_faults("filename,label\na.jpg\n\"b.jpg,cat\nc.jpg,../cat\nd.jpg,\n"),
                     {kBadAnnotations, "", {"line 2", "has 1 fields"}},
                     {kBadAnnotations, "", {"line 3", "quotes"}},
                     {kBadAnnotations, "", {"line 4", "label"}},
                     {kBadAnnotations, "", {"line 5", "label"}});
}

}  // namespace
}  // namespace stages
