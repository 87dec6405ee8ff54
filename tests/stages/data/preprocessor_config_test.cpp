#include "stages/data/preprocessor_config.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::ordered_json;

ImageDatasetOptions options_of(int image_size) {
  ImageDatasetOptions options;
  options.image_size = image_size;
  options.mean = {0.5, 0.25, 0.125};
  options.standard_deviation = {1, 2, 4};
  return options;
}

TEST(PreprocessorConfig, ShortestSideIsResizedAndTheCenterCropped) {
  EXPECT_EQ(preprocessor_config(options_of(96)), Json::parse(R"({
    "image_processor_type": "CLIPImageProcessor",
    "do_convert_rgb": true,
    "do_resize": true, "size": {"shortest_edge": 96}, "resample": 3,
    "do_center_crop": true, "crop_size": {"height": 96, "width": 96},
    "do_rescale": true, "rescale_factor": 0.00392156862745098,
    "do_normalize": true, "image_mean": [0.5, 0.25, 0.125], "image_std": [1.0, 2.0, 4.0]})"));
}

TEST(PreprocessorConfig, CropFractionLengthensTheShortestSide) {
  ImageDatasetOptions options = options_of(224);
  options.resize.crop_fraction = 0.9;
  const Json config = preprocessor_config(options);
  EXPECT_EQ(config["size"]["shortest_edge"], 248);
  EXPECT_EQ(config["crop_size"]["height"], 224);
}

TEST(PreprocessorConfig, SquashedImagesAreNotCropped) {
  ImageDatasetOptions options = options_of(64);
  options.resize.shape = ResizeShape::kSquare;
  options.resize.interpolation = Interpolation::kBilinear;
  const Json config = preprocessor_config(options);
  EXPECT_EQ(config["size"], (Json{{"height", 64}, {"width", 64}}));
  EXPECT_EQ(config["do_center_crop"], false);
  EXPECT_EQ(config["resample"], 2);
  EXPECT_EQ(timm_preprocessing(options)["crop_mode"], "squash");
}

TEST(PreprocessorConfig, TimmHasItsOwnKeys) {
  ImageDatasetOptions options = options_of(224);
  options.resize.crop_fraction = 0.9;
  EXPECT_EQ(timm_preprocessing(options), Json::parse(R"({
    "mean": [0.5, 0.25, 0.125], "std": [1.0, 2.0, 4.0], "interpolation": "bicubic", "crop_pct": 0.9,
    "crop_mode": "center"})"));
}

TEST(PreprocessorConfig, UnrepresentableOptionsAreReported) {
  ImageDatasetOptions options = options_of(96);
  EXPECT_THAT(lost_in_preprocessor(options), IsEmpty());
  options.decode = Decode::kFast;
  options.resize.crop_offset = CropOffset::kRound;
  EXPECT_THAT(lost_in_preprocessor(options),
              ElementsAre(HasSubstr("decode: fast"), HasSubstr("crop_offset: round")));
  options.resize.shape = ResizeShape::kSquare;
  EXPECT_THAT(lost_in_preprocessor(options), ElementsAre(HasSubstr("decode: fast")));
}

}  // namespace
}  // namespace stages
