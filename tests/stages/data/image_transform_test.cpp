#include "stages/data/image_transform.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

using nlohmann::json;

ImageDatasetOptions unusual() {
  ImageDatasetOptions options;
  options.decode = Decode::kFast;
  options.image_size = 33;
  options.resize = {Interpolation::kBilinear, 0.875, CropOffset::kRound,
                    ResizeShape::kShortestSide};
  options.mean = {0.1, -0.2, 0.48145466};
  options.standard_deviation = {0.3, 1000, 1e-6};
  return options;
}

/// Returns why the transform of unusual() with `value` at `pointer` is rejected.
std::string refusal(const std::string& pointer, const json& value) {
  json document = json::parse(transform_json(unusual()));
  document[json::json_pointer(pointer)] = value;
  try {
    transform_from_json(document.dump());
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ImageTransform, RoundTripKeepsEverything) {
  const ImageDatasetOptions back = transform_from_json(transform_json(unusual()));
  EXPECT_EQ(back.decode, Decode::kFast);
  EXPECT_EQ(back.image_size, 33);
  EXPECT_EQ(back.resize.interpolation, Interpolation::kBilinear);
  EXPECT_EQ(back.resize.crop_fraction, 0.875);
  EXPECT_EQ(back.resize.crop_offset, CropOffset::kRound);
  EXPECT_EQ(back.resize.shape, ResizeShape::kShortestSide);
  EXPECT_EQ(back.mean, unusual().mean);
  EXPECT_EQ(back.standard_deviation, unusual().standard_deviation);
}

TEST(ImageTransform, IsWrittenWithRecipeKeys) {
  EXPECT_EQ(
      transform_json(unusual()),
      R"({"decode":"fast","image_size":33,"kind":"image","normalize":{"mean":[0.1,-0.2,0.48145466],)"
      R"("std":[0.3,1000.0,1e-06]},"resize":{"crop_fraction":0.875,"crop_offset":"round",)"
      R"("interpolation":"bilinear","shape":"shortest_side"}})");
}

const ImageSubject kMoon = {.name = "moon",
                            .what = "a photograph of the moon",
                            .looks_alike = [](const Image&) { return true; }};

constexpr std::array kSubjects = {&kMoon};

ImageDatasetOptions of_moons() {
  ImageDatasetOptions options = unusual();
  options.decode = Decode::kExact;
  options.subject = &kMoon;
  options.preprocessing = {.crop_to_disc = CropToDisc{0.25},
                           .flatten_sharpen = FlattenSharpen{7, -3.5, 1.25, 0.5},
                           .clahe = Clahe{2.5, 4, 6}};
  return options;
}

TEST(ImageTransform, RoundTripKeepsPreprocessing) {
  const ImageDatasetOptions back = transform_from_json(transform_json(of_moons()), kSubjects);
  EXPECT_EQ(back.preprocessing, of_moons().preprocessing);
  EXPECT_EQ(back.subject, &kMoon);
  const ImageDatasetOptions none = transform_from_json(transform_json(unusual()));
  EXPECT_FALSE(none.preprocessing.does_anything());
  EXPECT_EQ(none.subject, nullptr);
  EXPECT_EQ(transform_from_json(transform_json(of_moons())).subject, nullptr)
      << "this build does not know the subject";
}

TEST(ImageTransform, PreprocessingIsWrittenWithRecipeKeys) {
  const json document = json::parse(transform_json(of_moons()));
  EXPECT_EQ(document["subject"], "moon");
  EXPECT_EQ(
      document["preprocess"].dump(),
      R"({"clahe":{"clip_limit":2.5,"tiles":[4,6]},"crop_to_disc":{"threshold":0.25},)"
      R"("flatten_sharpen":{"brightness":-3.5,"contrast":1.25,"kernel_size":7,"sharpen":0.5}})");
}

TEST(ImageTransform, PreprocessingIsChecked) {
  const auto refused = [](const std::string& pointer, const json& value) {
    json document = json::parse(transform_json(of_moons()));
    document[json::json_pointer(pointer)] = value;
    try {
      transform_from_json(document.dump());
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused("/preprocess/clahe/clip_limit", 3), "accepted");
  EXPECT_EQ(refused("/preprocess/clahe/clip_limit", -1), "its 'clip_limit' is out of range");
  EXPECT_EQ(refused("/preprocess/clahe/tiles", {8}), "its 'tiles' is not a list of two numbers");
  EXPECT_EQ(refused("/preprocess/clahe/tiles/0", 65), "its 'tiles' is out of range");
  EXPECT_EQ(refused("/preprocess/flatten_sharpen/kernel_size", 1.5),
            "its 'kernel_size' is not an integer");
  EXPECT_EQ(refused("/preprocess/flatten_sharpen", 1), "its 'kernel_size' is missing");
  EXPECT_EQ(refused("/preprocess/crop_to_disc/threshold", 2), "its 'threshold' is out of range");
  EXPECT_EQ(refused("/preprocess/by_grade", 1), "its 'by_grade' is unknown");
  EXPECT_EQ(refused("/preprocess", 1), "its 'preprocess' is not a mapping");
  EXPECT_EQ(refused("/decode", "fast"),
            "its 'decode' is 'fast', but preprocessing needs the image at full size");
}

TEST(ImageTransform, OmitsTrainingOptions) {
  ImageDatasetOptions options = unusual();
  options.augment.horizontal_flip = 0.5;
  options.on_corrupt = OnCorrupt::kSkip;
  options.loader.workers = 9;
  EXPECT_EQ(transform_json(options), transform_json(unusual()));
}

TEST(ImageTransform, EveryFieldIsChecked) {
  EXPECT_EQ(refusal("/image_size", 96), "accepted");
  for (const json& size : {json(7), json(4097), json(-1), json(96.5), json("96"), json(1e300)})
    EXPECT_NE(refusal("/image_size", size), "accepted") << size;
  EXPECT_EQ(refusal("/kind", "sound"), "its 'kind' is not 'image'");
  EXPECT_EQ(refusal("/decode", "slow"), "its 'decode' is unknown");
  EXPECT_EQ(refusal("/decode", 1), "its 'decode' is unknown");
  EXPECT_EQ(refusal("/resize", nullptr), "its 'interpolation' is missing");
  EXPECT_EQ(refusal("/resize/shape", "round"), "its 'shape' is unknown");
  for (const json& fraction : {json(0), json(-0.5), json(1.01), json(1e-9), json("1")})
    EXPECT_EQ(refusal("/resize/crop_fraction", fraction), "its 'crop_fraction' is out of range")
        << fraction;
  EXPECT_EQ(refusal("/resize/shape", "square"),
            "its 'crop_fraction' is out of range");  // it crops nothing
  EXPECT_EQ(refusal("/normalize/mean", {1, 2}), "its 'mean' is not a list of three numbers");
  EXPECT_EQ(refusal("/normalize/std", {1, 2, 0}), "its 'std' is out of range");
  EXPECT_EQ(refusal("/normalize/mean/1", "a"), "its 'mean' is out of range");
}

TEST(ImageTransform, InvalidTextIsRejected) {
  for (const char* text : {"", "[]", "3", "{", "null", "{}"}) {
    EXPECT_THROW(transform_from_json(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace stages
