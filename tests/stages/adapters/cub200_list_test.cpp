#include "stages/adapters/data_cub200.h"

#include <fstream>

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

class Cub200List : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    write_bytes(folder_ / (inner_ + name), {text.begin(), text.end()});
  }
  /// Five images of two classes. The numbers have gaps, and no two files have the same order.
  void write_set() const {
    write("classes.txt", "2 002.Least_Auklet\n1 001.Black_footed_Albatross\n");
    write("images.txt",
          "7 002.Least_Auklet/b.jpg\n3 001.Black_footed_Albatross/z.jpg\n"
          "1 001.Black_footed_Albatross/a.jpg\n12 002.Least_Auklet/a.jpg\n2 "
          "002.Least_Auklet/c.JPG\n");
    write("image_class_labels.txt", "1 1\n2 2\n3 1\n7 2\n12 2\n");
    write("train_test_split.txt", "12 1\n7 1\n3 1\n2 0\n1 0\n");
    write("bounding_boxes.txt",
          "1 1.0 2.0 10.0 9.0\n2 139.5 30.25 153.0 264.5\n3 -2.0 0.0 5.0 6.0\n"
          "7 0 0 1 1\n12 1e1 2.0 3.0 4.0\n");
    for (const char* const image :
         {"002.Least_Auklet/b.jpg", "001.Black_footed_Albatross/z.jpg",
          "001.Black_footed_Albatross/a.jpg", "002.Least_Auklet/a.jpg", "002.Least_Auklet/c.JPG"})
      write(std::string("images/") + image, "");
  }
  ImageList list(bool boxes = false) const {
    auto list = list_cub200(folder_.path(), boxes, false);
    EXPECT_TRUE(list) << (list ? "" : list.errors().front().message);
    return list ? *std::move(list) : ImageList{};
  }
  runner::Diagnostics errors(bool boxes = false, bool allow_outside = false) const {
    return refusals_of([&] { return list_cub200(folder_.path(), boxes, allow_outside); });
  }

  DrawingFolder folder_;
  std::string inner_;
};

TEST_F(Cub200List, JoinsByNumberAndKeepsTheOrderOfTheImages) {
  for (const char* const inner : {"", "CUB_200_2011/"}) {
    inner_ = inner;
    write_set();
    const ImageList found = list();
    EXPECT_EQ(found.root, inner_.empty() ? folder_.path() : folder_ / "CUB_200_2011");
    EXPECT_THAT(found.classes, ElementsAre("Black footed Albatross", "Least Auklet"));
    EXPECT_THAT(
        labeled_names(found[Part::kTrain]),
        ElementsAre("1 images/002.Least_Auklet/b.jpg", "0 images/001.Black_footed_Albatross/z.jpg",
                    "1 images/002.Least_Auklet/a.jpg"));
    EXPECT_THAT(labeled_names(found[Part::kTest]),
                ElementsAre("0 images/001.Black_footed_Albatross/a.jpg",
                            "1 images/002.Least_Auklet/c.JPG"));
    EXPECT_TRUE(found[Part::kValidation].empty());
    EXPECT_FALSE(found[Part::kTrain][0].box);
    fs::remove(folder_ / "images.txt");
  }
}

TEST_F(Cub200List, BoxesAreRoundedOutwardToWholePixels) {
  write_set();
  const ImageList found = list(/*boxes=*/true);
  EXPECT_EQ(found[Part::kTrain][0].box, (Box{0, 0, 1, 1}));
  EXPECT_EQ(found[Part::kTrain][1].box, (Box{-2, 0, 5, 6}));
  EXPECT_EQ(found[Part::kTrain][2].box, (Box{10, 2, 3, 4}));
  EXPECT_EQ(found[Part::kTest][0].box, (Box{1, 2, 10, 9}));
  EXPECT_EQ(found[Part::kTest][1].box, (Box{139, 30, 154, 265}));
}

TEST_F(Cub200List, BoxesAreReadOnlyIfUsed) {
  write_set();
  fs::remove(folder_ / "bounding_boxes.txt");
  EXPECT_THAT(errors(), testing::IsEmpty());
  EXPECT_REFUSED(errors(/*boxes=*/true), kMissingAnnotations, "", "bounding_boxes.txt");
  write("bounding_boxes.txt", "1 0 0 4\n2 0 0 0 4\n3 nan 0 4 4\n7 0 0 4 1e9\n12 0 0 4 4\n");
  EXPECT_ALL_REFUSED(
      errors(/*boxes=*/true), {kBadAnnotations, "", {"line 1", "IMAGE LEFT TOP WIDTH HEIGHT"}},
      {kBadAnnotations, "", {"line 2", "empty"}}, {kBadAnnotations, "", {"line 3", "pixels"}},
      {kBadAnnotations, "", {"line 4", "pixels"}});
}

TEST_F(Cub200List, FolderWithoutTheDatasetIsRejected) {
  EXPECT_REFUSED(errors(), kMissingFolder, "", "images.txt", "CUB_200_2011");
  fs::create_directory(folder_ / "CUB_200_2011");
  EXPECT_ALL_REFUSED(errors(), {kMissingAnnotations, "", {"CUB_200_2011/classes.txt"}},
                     {kMissingAnnotations, "", {"CUB_200_2011/images.txt"}},
                     {kMissingAnnotations, "", {"CUB_200_2011/image_class_labels.txt"}},
                     {kMissingAnnotations, "", {"CUB_200_2011/train_test_split.txt"}});
}

TEST_F(Cub200List, ErrorsReportTheirLines) {
  write_set();
  write("classes.txt",
        "1 001.Black_footed_Albatross\r\n2\n2 002.Least Auklet\n2 002.Least_Auklet\n0 000.None\n");
  EXPECT_ALL_REFUSED(errors(), {kBadAnnotations, "", {"classes.txt', line 2"}},
                     {kBadAnnotations, "", {"line 3"}}, {kBadAnnotations, "", {"line 5"}});
  write("classes.txt", "1 001.A_bird\n3 003.A bird\n3 003.B\n3 003.C\n4 004.A_bird\n");
  runner::Diagnostics first = errors();
  first.resize(std::min<std::size_t>(first.size(), 3));
  EXPECT_ALL_REFUSED(first, {kBadAnnotations, ""}, {kBadAnnotations, "", {"line 4", "class 3"}},
                     {kBadAnnotations, "", {"line 5", "1 and 4", "'A bird'"}});
  write("classes.txt", "1 001.A\n3 003.B\n");
  const runner::Diagnostics unnumbered = errors();
  ASSERT_FALSE(unnumbered.empty());
  EXPECT_REFUSED(runner::Diagnostics{unnumbered[0]}, kBadAnnotations, "", "numbered 1 to 2");
  write("classes.txt", "");
  EXPECT_REFUSED(errors(), kBadAnnotations, "", "classes.txt", "no class");

  write_set();
  write("image_class_labels.txt", "1 1\n2 3\n3 x\n7 2\n7 2\n12 2\n13 2\n");
  write("train_test_split.txt", "12 1\n7 yes\n\n2 0\n1 0\n");
  EXPECT_ALL_REFUSED(
      errors(), {kBadAnnotations, "", {"labels.txt', line 2", "'3'"}},
      {kBadAnnotations, "", {"line 3", "'x'"}}, {kBadAnnotations, "", {"line 5", "image 7"}},
      {kBadAnnotations, "", {"line 7", "image 13"}}, {kBadAnnotations, "", {"split.txt', line 2"}},
      {kBadAnnotations, "", {"line 3"}});
}

TEST_F(Cub200List, MissingLinesAreReportedByImage) {
  write_set();
  write("image_class_labels.txt", "1 1\n3 1\n12 2\n");
  EXPECT_ALL_REFUSED(errors(), {kBadAnnotations, "", {"image_class_labels.txt", "image 7"}},
                     {kBadAnnotations, "", {"image 2"}});
  write_set();
  write("train_test_split.txt", "1 0\n2 0\n3 0\n7 0\n12 0\n");
  EXPECT_THAT(errors(), testing::IsEmpty());  // testing alone needs no training images
  write("images.txt", "");
  EXPECT_REFUSED(errors(), kBadAnnotations, "", "images.txt", "no image");
}

TEST_F(Cub200List, PathsMustStayBelowTheRootAndNameImages) {
  write_set();
  write("images.txt",
        "1 ../secret.jpg\n2 /etc/secret.jpg\n3 a/./b.jpg\n4 a//b.jpg\n5 a/b.txt\n6 a/.b.jpg\n"
        "7 a/b\001.jpg\n8 a/b.jpg\n9 a/b.jpg\n8 a/c.jpg\n10 ..\n11 a/\n");
  std::vector<Refusal> expected;
  for (const int line : {1, 2, 3, 4, 5, 6, 7})
    expected.push_back(
        {runner::ErrorCode::kBadAnnotations, "", {"line " + std::to_string(line), ".webp file"}});
  expected.push_back({runner::ErrorCode::kBadAnnotations, "", {"line 9", "line 8"}});
  expected.push_back({runner::ErrorCode::kBadAnnotations, "", {"line 10", "image 8"}});
  runner::Diagnostics found = errors();
  found.resize(std::min(found.size(), expected.size()));
  EXPECT_TRUE(are_refused(found, expected));
}

TEST_F(Cub200List, ManyErrorsInAFileAreCounted) {
  write_set();
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "x\n";
  write("images.txt", lines);
  const auto all = errors();
  ASSERT_EQ(all.size(), 11u);
  EXPECT_REFUSED(runner::Diagnostics{all[9]}, kBadAnnotations, "", "images.txt', line 10");
  EXPECT_REFUSED(runner::Diagnostics{all[10]}, kBadAnnotations, "", "30 more");
}

TEST_F(Cub200List, MissingImagesAndLinksOutOfTheRootAreRejected) {
  const DrawingFolder elsewhere;
  elsewhere.add("z.jpg");
  write_set();
  const fs::path image = folder_ / "images/001.Black_footed_Albatross/z.jpg";
  fs::remove(image);
  fs::remove_all(folder_ / "images/002.Least_Auklet");
  EXPECT_REFUSED(errors(), kMissingImage, "", "4 of 5 images",
                 "002.Least_Auklet/b.jpg', 'images/001.Black_footed_Albatross/z.jpg', 'images/002");
  write_set();
  fs::remove(image);
  fs::create_symlink(elsewhere / "z.jpg", image);
  EXPECT_REFUSED(errors(), kOutsideRoot, "", "images/001.Black_footed_Albatross/z.jpg");
  EXPECT_THAT(errors(/*boxes=*/false, /*allow_outside=*/true), testing::IsEmpty());
}

TEST_F(Cub200List, FingerprintDependsOnTheAnnotations) {
  write_set();
  const std::string before = fingerprint(list());
  EXPECT_EQ(fingerprint(list()), before);
  write("classes.txt", "1 001.Black_footed_Albatross\n2 002.Least_Auklet\n");
  EXPECT_NE(fingerprint(list()), before);
}

}  // namespace
}  // namespace stages
