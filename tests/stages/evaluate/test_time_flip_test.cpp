#include "stages/evaluate/predictor.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

/// Weighs every pixel by its position.
at::Tensor weighed(const NamedTensors& inputs) {
  const at::Tensor image = inputs.at("image");
  return (image * torch::arange(image[0].numel(), torch::kFloat).reshape(image[0].sizes()))
      .sum({1, 2, 3})
      .unsqueeze(1);
}

NamedTensors one_image() {
  return {{"image", torch::tensor({1, 2, 3, 4}, torch::kFloat).reshape({1, 1, 2, 2})}};
}

double mean_of(TestTimeFlip flip) {
  return flipped_mean(one_image(), flip, weighed).item<double>();
}

TEST(TestTimeFlip, IsTheMeanOverAnImageAndItsFlips) {
  // The weights 0 1 / 2 3 are applied to the image 1 2 / 3 4, and to its flips 2 1 / 4 3,
  // 3 4 / 1 2 and 4 3 / 2 1.
  EXPECT_EQ(mean_of(TestTimeFlip::kNone), 20);
  EXPECT_EQ(mean_of(TestTimeFlip::kHorizontal), (20 + 18) / 2.0);
  EXPECT_EQ(mean_of(TestTimeFlip::kVertical), (20 + 12) / 2.0);
  EXPECT_EQ(mean_of(TestTimeFlip::kBoth), (20 + 18 + 12 + 10) / 4.0);
}

TEST(TestTimeFlip, MeanInHalfPrecisionIsNotRoundedToOne) {
  const auto in_half = [](const NamedTensors& inputs) { return weighed(inputs).to(at::kBFloat16); };
  // A bfloat16 has eight significant bits: it can represent 256 but not 257.
  NamedTensors image = {
      {"image", torch::tensor({0, 1, 0, 255}, torch::kFloat).reshape({1, 1, 2, 2})}};
  const double one = weighed(image).to(at::kBFloat16).item<double>();
  const NamedTensors turned = {{"image", image.at("image").flip({3})}};
  const double other = weighed(turned).to(at::kBFloat16).item<double>();
  ASSERT_NE(one, other);
  const at::Tensor mean = flipped_mean(image, TestTimeFlip::kHorizontal, in_half);
  EXPECT_EQ(mean.scalar_type(), at::kFloat);
  EXPECT_EQ(mean.item<double>(), (one + other) / 2);
  EXPECT_NE(mean.to(at::kBFloat16).item<double>(), (one + other) / 2);
}

TEST(TestTimeFlip, IsOffByDefault) {
  int looked = 0;
  const auto count = [&](const NamedTensors& inputs) {
    ++looked;
    return weighed(inputs);
  };
  const NamedTensors inputs = one_image();
  flipped_mean(inputs, TestTimeFlip::kNone, count);
  EXPECT_EQ(looked, 1);
  flipped_mean(inputs, TestTimeFlip::kBoth, count);
  EXPECT_EQ(looked, 5);
  EXPECT_TRUE(inputs.at("image").equal(one_image().at("image")));
}

}  // namespace
}  // namespace stages
