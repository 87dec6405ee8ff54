#include "stages/adapters/data_cub200.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/image_lists.h"
#include "tests/support/pictures.h"

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
  /// Five images of two classes. The numbers have gaps, and no two files have them in one order.
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
  std::vector<std::string> errors(bool boxes = false, bool allow_outside = false) const {
    const auto list = list_cub200(folder_.path(), boxes, allow_outside);
    return list ? std::vector<std::string>() : errors_below(folder_.path(), list.errors());
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
        labelled_names(found[Part::kTrain]),
        ElementsAre("1 images/002.Least_Auklet/b.jpg", "0 images/001.Black_footed_Albatross/z.jpg",
                    "1 images/002.Least_Auklet/a.jpg"));
    EXPECT_THAT(labelled_names(found[Part::kTest]),
                ElementsAre("0 images/001.Black_footed_Albatross/a.jpg",
                            "1 images/002.Least_Auklet/c.JPG"));
    EXPECT_TRUE(found[Part::kValidation].empty());
    EXPECT_FALSE(found[Part::kTrain][0].box);
    fs::remove(folder_ / "images.txt");
  }
}

TEST_F(Cub200List, BoxesAreTheWholePixelsThatTheyTouch) {
  write_set();
  const ImageList found = list(/*boxes=*/true);
  EXPECT_EQ(found[Part::kTrain][0].box, (Box{0, 0, 1, 1}));
  EXPECT_EQ(found[Part::kTrain][1].box, (Box{-2, 0, 5, 6}));
  EXPECT_EQ(found[Part::kTrain][2].box, (Box{10, 2, 3, 4}));
  EXPECT_EQ(found[Part::kTest][0].box, (Box{1, 2, 10, 9}));
  EXPECT_EQ(found[Part::kTest][1].box, (Box{139, 30, 154, 265}));
}

TEST_F(Cub200List, BoxesAreReadWhereTheyAreUsed) {
  write_set();
  fs::remove(folder_ / "bounding_boxes.txt");
  EXPECT_THAT(errors(), IsEmpty());
  EXPECT_THAT(errors(/*boxes=*/true),
              ElementsAre("E0611: there is no file 'ROOT/bounding_boxes.txt'"));
  write("bounding_boxes.txt", "1 0 0 4\n2 0 0 0 4\n3 nan 0 4 4\n7 0 0 4 1e9\n12 0 0 4 4\n");
  EXPECT_THAT(
      errors(/*boxes=*/true),
      ElementsAre("E0612: 'ROOT/bounding_boxes.txt', line 1: it is not of the form IMAGE LEFT TOP "
                  "WIDTH HEIGHT",
                  "E0612: 'ROOT/bounding_boxes.txt', line 2: its box is empty",
                  "E0612: 'ROOT/bounding_boxes.txt', line 3: a box is given in pixels",
                  "E0612: 'ROOT/bounding_boxes.txt', line 4: a box is given in pixels"));
}

TEST_F(Cub200List, FolderWithoutTheSet) {
  EXPECT_THAT(errors(), ElementsAre("E0601: CUB-200-2011 is not in 'ROOT': it has neither "
                                    "images.txt nor a folder CUB_200_2011"));
  fs::create_directory(folder_ / "CUB_200_2011");
  EXPECT_THAT(errors(),
              ElementsAre("E0611: there is no file 'ROOT/CUB_200_2011/classes.txt'",
                          "E0611: there is no file 'ROOT/CUB_200_2011/images.txt'",
                          "E0611: there is no file 'ROOT/CUB_200_2011/image_class_labels.txt'",
                          "E0611: there is no file 'ROOT/CUB_200_2011/train_test_split.txt'"));
}

TEST_F(Cub200List, LinesAreNamed) {
  write_set();
  write("classes.txt",
        "1 001.Black_footed_Albatross\r\n2\n2 002.Least Auklet\n2 002.Least_Auklet\n0 000.None\n");
  EXPECT_THAT(errors(),
              ElementsAre("E0612: 'ROOT/classes.txt', line 2: it is not of the form NUMBER NAME",
                          "E0612: 'ROOT/classes.txt', line 3: it is not of the form NUMBER NAME",
                          "E0612: 'ROOT/classes.txt', line 5: it is not of the form NUMBER NAME"));
  write("classes.txt", "1 001.A_bird\n3 003.A bird\n3 003.B\n3 003.C\n4 004.A_bird\n");
  EXPECT_THAT(errors()[1], "E0612: 'ROOT/classes.txt', line 4: the class 3 is named twice");
  EXPECT_THAT(errors()[2],
              "E0612: 'ROOT/classes.txt', line 5: the classes 1 and 4 are both called 'A bird'");
  write("classes.txt", "1 001.A\n3 003.B\n");
  EXPECT_THAT(errors()[0], "E0612: 'ROOT/classes.txt': its 2 classes are not numbered 1 to 2");
  write("classes.txt", "");
  EXPECT_THAT(errors(), ElementsAre("E0612: 'ROOT/classes.txt': it names no class"));

  write_set();
  write("image_class_labels.txt", "1 1\n2 3\n3 x\n7 2\n7 2\n12 2\n13 2\n");
  write("train_test_split.txt", "12 1\n7 yes\n\n2 0\n1 0\n");
  EXPECT_THAT(
      errors(),
      ElementsAre(
          "E0612: 'ROOT/image_class_labels.txt', line 2: classes.txt has no class '3'",
          "E0612: 'ROOT/image_class_labels.txt', line 3: classes.txt has no class 'x'",
          "E0612: 'ROOT/image_class_labels.txt', line 5: the image 7 comes twice",
          "E0612: 'ROOT/image_class_labels.txt', line 7: images.txt lists no image 13",
          "E0612: 'ROOT/train_test_split.txt', line 2: the value must be 1 for training or 0 for "
          "the test",
          "E0612: 'ROOT/train_test_split.txt', line 3: it is not of the form IMAGE 1, or 0 for the "
          "test"));
}

TEST_F(Cub200List, MissingLinesAreNamedByTheirImage) {
  write_set();
  write("image_class_labels.txt", "1 1\n3 1\n12 2\n");
  EXPECT_THAT(errors(), ElementsAre("E0612: 'ROOT/image_class_labels.txt': it lacks the image 7",
                                    "E0612: 'ROOT/image_class_labels.txt': it lacks the image 2"));
  write_set();
  write("train_test_split.txt", "1 0\n2 0\n3 0\n7 0\n12 0\n");
  EXPECT_THAT(errors(), testing::IsEmpty());  // who only tests needs none for training
  write("images.txt", "");
  EXPECT_THAT(errors(), ElementsAre("E0612: 'ROOT/images.txt': it lists no image"));
}

TEST_F(Cub200List, PathsLeadDownToImages) {
  write_set();
  write("images.txt",
        "1 ../secret.jpg\n2 /etc/secret.jpg\n3 a/./b.jpg\n4 a//b.jpg\n5 a/b.txt\n6 a/.b.jpg\n"
        "7 a/b\001.jpg\n8 a/b.jpg\n9 a/b.jpg\n8 a/c.jpg\n10 ..\n11 a/\n");
  const auto all = errors();
  for (const std::size_t line : {1, 2, 3, 4, 5, 6, 7})
    EXPECT_EQ(all.at(line - 1),
              "E0612: 'ROOT/images.txt', line " + std::to_string(line) +
                  ": its path does not lead down to a .jpg, .jpeg, .png or .webp file");
  EXPECT_EQ(all.at(7), "E0612: 'ROOT/images.txt', line 9: its path is also in line 8 too");
  EXPECT_EQ(all.at(8), "E0612: 'ROOT/images.txt', line 10: the image 8 is listed twice");
}

TEST_F(Cub200List, ManyFaultsOfAFileAreCounted) {
  write_set();
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "x\n";
  write("images.txt", lines);
  const auto all = errors();
  ASSERT_EQ(all.size(), 11u);
  EXPECT_EQ(all[9], "E0612: 'ROOT/images.txt', line 10: it is not of the form IMAGE PATH");
  EXPECT_EQ(all[10], "E0612: 'ROOT/images.txt' has 30 more faults");
}

TEST_F(Cub200List, MissingImagesAndLinksOutOfTheRoot) {
  const DrawingFolder elsewhere;
  elsewhere.add("z.jpg");
  write_set();
  const fs::path image = folder_ / "images/001.Black_footed_Albatross/z.jpg";
  fs::remove(image);
  fs::remove_all(folder_ / "images/002.Least_Auklet");
  EXPECT_THAT(
      errors(),
      ElementsAre("E0603: 4 of 5 images are not in 'ROOT': 'images/002.Least_Auklet/b.jpg', "
                  "'images/001.Black_footed_Albatross/z.jpg', 'images/002.Least_Auklet/a.jpg', "
                  "'images/002.Least_Auklet/c.JPG'"));
  write_set();
  fs::remove(image);
  fs::create_symlink(elsewhere / "z.jpg", image);
  EXPECT_THAT(
      errors(),
      ElementsAre("E0607: symlinks lead out of 'ROOT': 'images/001.Black_footed_Albatross/z.jpg'"));
  EXPECT_THAT(errors(/*boxes=*/false, /*allow_outside=*/true), IsEmpty());
}

TEST_F(Cub200List, FingerprintTellsOfTheAnnotations) {
  write_set();
  const std::string before = fingerprint(list());
  EXPECT_EQ(fingerprint(list()), before);
  write("classes.txt", "1 001.Black_footed_Albatross\n2 002.Least_Auklet\n");
  EXPECT_NE(fingerprint(list()), before);
}

}  // namespace
}  // namespace stages
