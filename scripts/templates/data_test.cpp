#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"

namespace stages {
namespace {

class DataNovel : public ImageStageTest {
 protected:
  DataNovel() : ImageStageTest(kDataNovel) {}
  /// Adds ten images of each of two classes.
  void SetUp() override {
    std::string table;
    for (int i = 0; i < 20; ++i) {
      const std::string file = "photos/" + std::to_string(i) + ".jpg";
      folder_.add("data/" + file, static_cast<std::uint64_t>(i), 30, 20);
      table += file + (i % 2 ? ",tulip\n" : ",rose\n");
    }
    write_table(table);
  }
  void write_table(const std::string& text) { std::ofstream(data() / "images.csv") << text; }
};

TEST_F(DataNovel, UnknownOptionIsRejected) {
  EXPECT_THAT(errors({{"rot", "data"}}), testing::Contains(testing::HasSubstr("/data/rot: ")));
}

TEST_F(DataNovel, SamplesMatchTheTable) {
  const auto train = part(run({{"image_size", 16}}), "train");
  EXPECT_EQ(train->describe().size, 16);
  EXPECT_THAT(train->describe().classes, testing::ElementsAre("rose", "tulip"));
  EXPECT_EQ(image(*train).sizes(), (std::vector<std::int64_t>{3, 16, 16}));
  for (std::int64_t i = 0; i < train->describe().size; ++i) {
    const int number = std::stoi(train->sample_name(i).substr(std::string("photos/").size()));
    EXPECT_EQ(label(*train, i), number % 2);
  }
}

TEST_F(DataNovel, SeedDeterminesTheTestPart) {
  const auto held_out = [&](std::uint64_t seed) {
    context_.facts.seed = seed;
    return names(*part(run(), "test"));
  };
  EXPECT_EQ(held_out(1).size(), 4);
  EXPECT_EQ(held_out(1), held_out(1));
  EXPECT_NE(held_out(1), held_out(2));
}

TEST_F(DataNovel, InvalidLinesAreReportedByNumber) {
  write_table("photos/0.jpg,rose\n../secret.jpg,rose\nphotos/1.jpg\n");
  EXPECT_THAT(errors(), testing::ElementsAre(
                            testing::HasSubstr("images.csv', line 2: it does not have the form"),
                            testing::HasSubstr("images.csv', line 3: it does not have the form")));
}

TEST_F(DataNovel, MissingFileIsReported) {
  write_table("photos/0.jpg,rose\nphotos/gone.jpg,rose\n");
  EXPECT_THAT(errors(), testing::ElementsAre(testing::HasSubstr("1 of 2 images are not in")));
}

}  // namespace
}  // namespace stages
