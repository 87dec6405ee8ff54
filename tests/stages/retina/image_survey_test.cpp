#include "stages/data/image_survey.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/run_context.h"
#include "stages/data/image.h"
#include "stages/data/image_writer.h"
#include "stages/retina/retina.h"
#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ImageSurveyTest : public ImageStageTest {
 protected:
  ImageSurveyTest() : ImageStageTest(kDataFundus) {}
  void SetUp() override {
    make_fundus_folders(data(), {.classes = 5, .per_class = 6, .size = 64, .seed = 2});
  }

  ImageSurvey survey(SurveyOptions options = {.threads = 2}) {
    const auto outputs = run({{"duplicates", "keep"}});
    std::vector<std::shared_ptr<const ImageDataset>> parts;
    for (const char* const port : {"train", "validation", "test"})
      parts.push_back(std::dynamic_pointer_cast<const ImageDataset>(outputs.at(port)));
    return survey_images(parts, options);
  }
  static std::vector<std::string> names(const ImageSurvey::Group& group) {
    std::vector<std::string> names;
    for (const SurveyedImage& picture : group) names.push_back(picture.file);
    return names;
  }
};

TEST_F(ImageSurveyTest, FindsNothingInGoodData) {
  const ImageSurvey found = survey();
  EXPECT_THAT(found.counts[0], ElementsAre(4, 4, 4, 4, 4));
  EXPECT_THAT(found.counts[1], ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(found.widths, ElementsAre(64, 64, 64));
  EXPECT_GT(found.bytes, 30 * 500);
  EXPECT_THAT(found.unreadable, IsEmpty());
  EXPECT_THAT(found.identical, IsEmpty());
  EXPECT_THAT(found.alike, IsEmpty());
  EXPECT_THAT(found.unlike, IsEmpty());
  EXPECT_EQ(found.patients, 0);
  EXPECT_EQ(found.without_patient, 30);
}

TEST_F(ImageSurveyTest, FindsCopiesAndReencodedImages) {
  fs::copy_file(data() / "test/2/00001.jpg", data() / "train/2/copy.jpg");
  write_bytes(data() / "train/4/again.png",
              png_file(decode_image(file_bytes(data() / "val/4/00002.jpg"))));
  const ImageSurvey found = survey();
  ASSERT_EQ(found.identical.size(), 1u);
  EXPECT_THAT(names(found.identical[0]), ElementsAre("train/2/copy.jpg", "test/2/00001.jpg"));
  EXPECT_TRUE(is_across(found.identical[0]));
  ASSERT_EQ(found.alike.size(), 1u);
  EXPECT_THAT(names(found.alike[0]), ElementsAre("train/4/again.png", "val/4/00002.jpg"));
}

TEST_F(ImageSurveyTest, FindsUnreadableAndNonRetinaImages) {
  std::vector<std::uint8_t> half = file_bytes(data() / "train/1/00006.jpg");
  half.resize(half.size() / 2);
  write_bytes(data() / "train/1/00006.jpg", half);
  folder_.add("data/train/0/street.jpg", 1, 50, 40);
  const ImageSurvey found = survey();
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].picture.file, "train/1/00006.jpg");
  ASSERT_EQ(found.unlike.size(), 1u);
  EXPECT_EQ(found.unlike[0].file, "train/0/street.jpg");
  EXPECT_THAT(found.widths, ElementsAre(50, 64, 64));
}

TEST_F(ImageSurveyTest, FindsImagesWith16Bits) {
  EXPECT_THAT(survey().reduced, IsEmpty());
  const std::vector<std::uint16_t> gray(std::size_t{64} * 64, 0x80FF);
  write_bytes(data() / "val/3/deep.png", encode_png(64, 64, gray.data(), PNG_FORMAT_LINEAR_Y));
  EXPECT_THAT(names(survey().reduced), ElementsAre("val/3/deep.png"));
}

TEST_F(ImageSurveyTest, FindsPatientsInTwoParts) {
  for (const char* const name :
       {"train/0/17_left.jpg", "train/0/17_right.jpg", "test/1/18_left.jpg"})
    fs::copy_file(data() / "train/0/00003.jpg", data() / name);
  EXPECT_THAT(survey().shared, IsEmpty());
  fs::copy_file(data() / "train/0/00003.jpg", data() / "val/1/18_right.jpg");
  const ImageSurvey found = survey();
  EXPECT_EQ(found.patients, 2);
  EXPECT_EQ(found.without_patient, 30);
  EXPECT_THAT(found.shared, ElementsAre("18"));
}

TEST_F(ImageSurveyTest, ResultDoesNotDependOnTheThreadCount) {
  fs::copy_file(data() / "test/2/00001.jpg", data() / "train/2/copy.jpg");
  for (const int threads : {1, 7, 100}) {
    const ImageSurvey found = survey({.threads = threads});
    ASSERT_EQ(found.identical.size(), 1u);
    EXPECT_THAT(names(found.identical[0]), ElementsAre("train/2/copy.jpg", "test/2/00001.jpg"));
  }
}

}  // namespace
}  // namespace stages
