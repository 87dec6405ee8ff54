#include "stages/worker/feature_map_picture.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/stages.h"
#include "tests/support/model_of.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

DatasetDescription two_grades() {
  return {.size = 4,
          .tensors = {{"image", {3, 64, 64}, at::kFloat}, {"label", {}, at::kLong}},
          .classes = {"0", "1"}};
}

TEST(FeatureMapPicture, IsThePositivePartOfTheWeightedMaps) {
  const auto model = model_of(
      kModelSeResnext,
      Json{{"layers", {1, 1, 1, 1}}, {"cardinality", 2}, {"head", {{"widths", Json::array()}}}});
  const auto network = model->build(two_grades(), 3);
  network->eval();
  Checkpoint checkpoint;
  const at::Tensor pixels = torch::arange(3 * 64 * 64, at::kFloat).sin().view({1, 3, 64, 64});
  const at::Tensor one = class_activation(*network, checkpoint, pixels, 1, 1);
  EXPECT_EQ(one.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_GE(one.min().item<float>(), 0);
  EXPECT_LE(one.max().item<float>(), 1);
  // With one linear layer, the maps have the layer's weights: their positive and
  // negative parts add up to the logit, except for the bias.
  const at::Tensor against = class_activation(*network, checkpoint, pixels, 1, -1);
  EXPECT_TRUE((one * against).eq(0).all().item<bool>());
  for (const auto& item : network->named_parameters())
    EXPECT_FALSE(item.value().grad().defined()) << item.key();
}

TEST(FeatureMapPicture, NetworkWithoutFeatureMapsIsRejected) {
  const TinyModel model;
  const auto network = model.build(two_grades(), 1);
  Checkpoint checkpoint;
  checkpoint.model_stage = "model";
  EXPECT_REFUSED(class_activation(*network, checkpoint, torch::zeros({1, 3, 8, 8}), 0, 1),
                 kOptionConflict, "", "'model'", "--explain");
}

/// A gray image, and where the network saw it.
SeenImage gray_image(int width, int height, const Region& seen) {
  SeenImage image{.picture = Image(width, height), .seen = seen};
  std::ranges::fill(image.picture.pixels, std::uint8_t{128});
  return image;
}

TEST(FeatureMapPicture, IsOverlaidInRed) {
  const Region all{0, 0, 4, 4};
  const Image plain = activation_picture(gray_image(4, 4, all), torch::zeros({2, 2}));
  for (std::size_t i = 0; i < plain.pixels.size(); ++i) EXPECT_EQ(plain.pixels[i], 128) << i;
  const Image red = activation_picture(gray_image(4, 4, all), torch::ones({2, 2}));
  EXPECT_EQ(red.pixels[0], 204);  // 0.4 of 128, and 0.6 of 255
  EXPECT_EQ(red.pixels[1], 51);
  EXPECT_EQ(red.pixels[2], 51);
}

TEST(FeatureMapPicture, AreaThatTheNetworkDidNotSeeIsDimmed) {
  const Image picture = activation_picture(gray_image(12, 6, {3, 0, 6, 6}), torch::zeros({2, 2}));
  for (int x = 0; x < 12; ++x) EXPECT_EQ(picture.row(2)[3 * x], x < 3 || x >= 9 ? 64 : 128) << x;
}

TEST(FeatureMapPicture, MapIsInterpolatedBilinearly) {
  const at::Tensor map = torch::arange(12, at::kFloat).view({3, 4}) / 11;
  const Image picture = activation_picture(gray_image(40, 60, {0, 0, 40, 60}), map);
  const at::Tensor heat =
      torch::upsample_bilinear2d(map.view({1, 1, 3, 4}), {60, 40}, /*align_corners=*/false)
          .view({60, 40});
  for (int y = 0; y < 60; ++y) {
    for (int x = 0; x < 40; ++x) {
      const double red = 0.6 * heat[y][x].item<double>();
      // One value is computed in float32, so it may be rounded to the next byte.
      EXPECT_NEAR(picture.row(y)[3 * x], (1 - red) * 128 + red * 255, 0.5 + 1e-3);
      EXPECT_NEAR(picture.row(y)[3 * x + 1], (1 - red) * 128, 0.5 + 1e-3);
    }
  }
}

TEST(FeatureMapPicture, HotCellIsAtItsPlaceInTheImage) {
  at::Tensor map = torch::zeros({4, 8});
  map[1][5] = 1;
  // The network saw 160 x 40 pixels at (20, 30): a cell is 20 pixels wide and 10 high.
  const Image picture = activation_picture(gray_image(200, 100, {20, 30, 160, 40}), map);
  int reddest = 0, left = 200, right = 0, top = 100, bottom = 0;
  for (std::size_t i = 0; i < picture.pixels.size(); i += 3)
    reddest = std::max<int>(reddest, picture.pixels[i]);
  for (int y = 0; y < 100; ++y) {
    for (int x = 0; x < 200; ++x) {
      if (picture.row(y)[3 * x] < reddest) continue;
      left = std::min(left, x), right = std::max(right, x);
      top = std::min(top, y), bottom = std::max(bottom, y);
    }
  }
  EXPECT_EQ((left + right + 1) / 2, 130);  // 20 + 5.5 cells
  EXPECT_EQ((top + bottom + 1) / 2, 45);   // 30 + 1.5 cells
}

}  // namespace
}  // namespace stages
