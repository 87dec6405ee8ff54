#include "stages/worker/feature_map_picture.h"

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

TEST(FeatureMapPicture, IsOverlaidInRed) {
  ImageDatasetOptions transform;
  transform.mean = {0.5, 0.5, 0.5};
  transform.standard_deviation = {0.25, 0.25, 0.25};
  const at::Tensor pixels = torch::zeros({1, 3, 4, 4});
  const Image plain = activation_picture(pixels, torch::zeros({2, 2}), transform);
  for (std::size_t i = 0; i < plain.pixels.size(); ++i) EXPECT_EQ(plain.pixels[i], 128) << i;
  const Image red = activation_picture(pixels, torch::ones({2, 2}), transform);
  EXPECT_EQ(red.pixels[0], 204);  // 0.4 of 0.5, and 0.6
  EXPECT_EQ(red.pixels[1], 51);
  EXPECT_EQ(red.pixels[2], 51);
}

}  // namespace
}  // namespace stages
