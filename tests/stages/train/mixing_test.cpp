#include "stages/train/mixing.h"

#include <cmath>

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include "stages/train/classification_loss.h"
#include "tests/support/chance.h"
#include "tests/support/on_test_device.h"

namespace stages {
namespace {

constexpr StepKey kKey{.seed = 5, .step = 3};

Batch images(std::int64_t count = 6, std::int64_t height = 8, std::int64_t width = 12) {
  const at::Generator generator = at::detail::createCPUGenerator(2);
  const at::Tensor pixels = torch::randn({count, 3, height, width}, generator);
  Batch batch({{"image", pixels.to(here().device())},
               {"label", torch::arange(count, here().dtype(at::kLong))}},
              count);
  for (std::int64_t i = 0; i < count; ++i) batch.indices.push_back(100 + 7 * i);
  return batch;
}

TEST(Mixing, SharesAreDrawnFromTheBetaDistribution) {
  for (const double alpha : {0.2, 1.0, 3.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20'000;
    for (std::uint32_t name = 0; name < kDraws; ++name) {
      const double share = draw_mixture({.mixup_alpha = alpha}, kKey, name, 1, 1).share;
      EXPECT_TRUE(share >= 0 && share <= 1);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    // The squares are between 0 and 1/4, so their standard deviation is at most 1/8.
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, mean_error(std::sqrt(variance), kDraws)) << alpha;
    EXPECT_NEAR(squares / kDraws, variance, mean_error(0.125, kDraws)) << alpha;
  }
}

TEST(Mixing, DependsOnlyOnSeedStepAndSample) {
  const auto share = [](const StepKey& key, std::uint32_t name) {
    return draw_mixture({.mixup_alpha = 1}, key, name, 1, 1).share;
  };
  EXPECT_EQ(share({1, 2}, 3), share({1, 2}, 3));
  EXPECT_NE(share({1, 2}, 3), share({1, 2}, 4));
  EXPECT_NE(share({1, 2}, 3), share({1, 3}, 3));
  EXPECT_NE(share({1, 2}, 3), share({2, 2}, 3));
}

TEST(Mixing, MixupBlendsWithThePreviousSample) {
  const Batch batch = images(), result = mix_samples(batch, {.mixup_alpha = 1}, kKey);
  for (std::int64_t i = 0; i < 6; ++i) {
    const std::int64_t before = (i + 5) % 6;
    const auto share = result["share"][i].item<double>();
    EXPECT_FLOAT_EQ(share, draw_mixture({.mixup_alpha = 1}, kKey,
                                        static_cast<std::uint32_t>(100 + 7 * i), 8, 12)
                               .share);
    EXPECT_TRUE(result["image"][i].allclose(share * batch["image"][i] +
                                            (1 - share) * batch["image"][before]));
    EXPECT_EQ(result["label"][i].item<std::int64_t>(), i);
    EXPECT_EQ(result["partner_label"][i].item<std::int64_t>(), before);
  }
  EXPECT_EQ(result.indices, batch.indices);
  EXPECT_EQ(result["share"].device(), here().device());
}

TEST(Mixing, CutmixPastesABoxAndCountsItsPixels) {
  int with_box = 0;
  for (std::int64_t step = 1; step < 10; ++step) {
    const StepKey key{7, step};
    const Batch batch = images(), result = mix_samples(batch, {.cutmix_alpha = 1}, key);
    for (std::int64_t i = 0; i < 6; ++i) {
      const at::Tensor own = result["image"][i].eq(batch["image"][i]).all(0);
      const at::Tensor other = result["image"][i].eq(batch["image"][(i + 5) % 6]).all(0);
      EXPECT_TRUE(own.logical_xor(other).all().item<bool>());
      EXPECT_NEAR(own.to(torch::kDouble).mean().item<double>(), result["share"][i].item<double>(),
                  1e-6);
      const MixedBox box =
          draw_mixture({.cutmix_alpha = 1}, key, static_cast<std::uint32_t>(100 + 7 * i), 8, 12)
              .box;
      EXPECT_EQ(other.slice(0, box.top, box.top + box.height)
                    .slice(1, box.left, box.left + box.width)
                    .sum()
                    .item<int>(),
                box.height * box.width);
      with_box += box.height * box.width > 0;
    }
  }
  EXPECT_GT(with_box, 30);
}

TEST(Mixing, BothMethodsAreChosenEquallyOften) {
  int boxes = 0;
  for (std::uint32_t name = 0; name < 2000; ++name)
    boxes += draw_mixture({.mixup_alpha = 1, .cutmix_alpha = 1}, kKey, name, 64, 64).box.height > 0;
  EXPECT_NEAR(boxes, 1000, count_error(2000, 0.5));
}

TEST(Mixing, MixingOfASampleDoesNotDependOnItsBatch) {
  const Batch batch = images();
  const Batch some = batch.part(0, 3), alone = mix_samples(some, {.mixup_alpha = 1}, kKey);
  EXPECT_TRUE(
      alone["share"].equal(mix_samples(batch, {.mixup_alpha = 1}, kKey)["share"].slice(0, 0, 3)));
}

TEST(Mixing, KeepsTheLayoutAndTheBatch) {
  Batch batch = images();
  const at::Tensor before = batch["image"].clone();
  batch = batch.with("image", batch["image"].contiguous(at::MemoryFormat::ChannelsLast));
  const Batch result = mix_samples(batch, {.mixup_alpha = 1, .cutmix_alpha = 1}, kKey);
  EXPECT_TRUE(result["image"].is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(batch["image"].equal(before));
  const Batch one = mix_samples(images(1), {.mixup_alpha = 1, .cutmix_alpha = 1}, kKey);
  EXPECT_TRUE(one["image"].allclose(images(1)["image"]));
}

TEST(Mixing, LossEqualsCrossEntropyOfTheMixedTarget) {
  const at::TensorOptions indices = here().dtype(at::kLong), numbers = here().dtype(at::kDouble);
  const at::Tensor logits =
      torch::randn({5, 4}, at::detail::createCPUGenerator(3), torch::kDouble).to(here().device());
  const at::Tensor labels = torch::tensor({0, 1, 2, 3, 1}, indices),
                   partners = torch::tensor({3, 1, 0, 2, 2}, indices);
  const at::Tensor share = torch::tensor({0.25, 0.5, 1.0, 0.0, 0.75}, numbers);
  const at::Tensor target = torch::one_hot(labels, 4) * share.unsqueeze(1) +
                            torch::one_hot(partners, 4) * (1 - share).unsqueeze(1);
  for (const double smoothing : {0.0, 0.1}) {
    const auto options =
        torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing).reduction(
            torch::kSum);
    EXPECT_NEAR(mixed_cross_entropy_sum(logits, labels, partners, share, smoothing).item<double>(),
                torch::nn::functional::cross_entropy(logits, target.to(torch::kDouble), options)
                    .item<double>(),
                1e-12);
  }
}

}  // namespace
}  // namespace stages
