#include "stages/model/resnet.h"

#include <limits>

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/recomputable_module.h"
#include "stages/plan/meta_kernels.h"
#include "tests/bench/resnet.h"

namespace stages {
namespace {

using testing::ElementsAre;

std::int64_t parameters_of(std::int64_t depth, ResNetStem stem) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : ResNet({.depth = depth, .stem = stem}, at::kMeta).parameters())
    count += parameter.numel();
  return count;
}

TEST(ResNet, HasThePublishedSizes) {
  // torchvision counts 11,689,512 and 21,797,672 parameters, including 513,000 of the classifier.
  EXPECT_EQ(parameters_of(18, ResNetStem::kImageNet), 11689512 - 513000);
  EXPECT_EQ(parameters_of(34, ResNetStem::kImageNet), 21797672 - 513000);
  // A stem of 5 x 5 has 4,608 fewer parameters.
  EXPECT_EQ(parameters_of(18, ResNetStem::kFeti), 11689512 - 513000 - 4608);
  EXPECT_NEAR(static_cast<double>(parameters_of(12, ResNetStem::kFeti)), 4.98e6, 5e3);
  EXPECT_NEAR(static_cast<double>(parameters_of(34, ResNetStem::kFeti)), 21.28e6, 5e3);
}

TEST(ResNet, FeaturesMatchThePublishedOnes) {
  const ResNet imagenet({.depth = 34}, at::kMeta),
      feti({.depth = 18, .stem = ResNetStem::kFeti}, at::kMeta);
  EXPECT_EQ(imagenet.shape(224, 224)->features(), 25088);
  EXPECT_EQ(imagenet.shape(112, 112)->features(), 8192);
  EXPECT_EQ(feti.shape(224, 224)->features(), 25088);
  EXPECT_EQ(feti.shape(112, 112)->features(), 25088);
}

TEST(ResNet, ReportsItsOutputShape) {
  register_meta_kernels();
  for (const ResNetStem stem : {ResNetStem::kImageNet, ResNetStem::kFeti}) {
    const ResNet network({.depth = 12, .stem = stem, .width = 2, .pooled_size = 3}, at::kMeta);
    for (const std::int64_t size : {32, 33, 47, 50, 64, 84, 99, 112, 224}) {
      const auto shape = network.shape(size, size + 9);
      if (!shape) continue;
      const at::Tensor maps = network.forward(torch::empty({2, 3, size, size + 9}, at::kMeta));
      EXPECT_EQ(*shape, (MapShape{maps.size(1), maps.size(2), maps.size(3)})) << size;
    }
  }
  EXPECT_FALSE(ResNet({}, at::kMeta).shape(31, 224));
  const ResNet feti({.stem = ResNetStem::kFeti}, at::kMeta);
  EXPECT_FALSE(feti.shape(98, 224)) << "its last map would be smaller than the pooled size";
  EXPECT_TRUE(feti.shape(99, 99));
}

/// Torch's layers, and a network with their weights under the same names.
struct Pair {
  std::shared_ptr<ResNet18> theirs;
  std::shared_ptr<ResNet> ours;
};

Pair pair(BatchNormStatistics statistics) {
  torch::manual_seed(1);
  Pair both{std::make_shared<ResNet18>(4),
            std::make_shared<ResNet>(ResNetOptions{.statistics = statistics}, at::kDouble)};
  const torch::NoGradGuard no_graph;
  both.theirs->to(at::kDouble);
  const auto weights = both.theirs->named_parameters();
  for (auto& item : both.ours->named_parameters()) item.value().copy_(weights[item.key()]);
  return both;
}

at::Tensor images() {
  return torch::randn({3, 3, 64, 64}, at::detail::createCPUGenerator(4), at::kDouble);
}

/// Bounds the rounding error of eighteen layers of at most 9 x 512 products.
constexpr double kRounding = 18 * (9 * 512) * std::numeric_limits<double>::epsilon();

at::Tensor classified(ResNet18& theirs, const at::Tensor& maps) {
  return theirs.named_children()["fc"]->as<torch::nn::LinearImpl>()->forward(maps.mean({2, 3}));
}

TEST(ResNet, MatchesASequenceOfTorchLayers) {
  const auto [theirs, ours] = pair(BatchNormStatistics::kCollected);
  const at::Tensor expected = theirs->forward(images()),
                   logits = classified(*theirs, ours->forward(images()));
  EXPECT_LT((logits - expected).abs().max().item<double>(),
            kRounding * expected.abs().max().item<double>());
  const auto buffers = theirs->named_buffers();
  for (const auto& item : ours->named_buffers()) {
    EXPECT_TRUE(torch::allclose(item.value().to(at::kDouble), buffers[item.key()].to(at::kDouble),
                                kRounding, kRounding))
        << item.key();
  }
  theirs->eval();
  ours->eval();
  const torch::NoGradGuard no_graph;
  const at::Tensor evaluated = theirs->forward(images());
  EXPECT_LT((classified(*theirs, ours->forward(images())) - evaluated).abs().max().item<double>(),
            kRounding * evaluated.abs().max().item<double>());
}

TEST(ResNet, FetiPoolsItsLastMapToThePooledSize) {
  const ResNet network({.depth = 12, .stem = ResNetStem::kFeti, .width = 2, .pooled_size = 7},
                       at::kFloat);
  const ResNet whole({.depth = 12, .stem = ResNetStem::kFeti, .width = 2, .pooled_size = 14},
                     at::kFloat);
  const torch::NoGradGuard no_graph;
  for (at::Tensor& weight : network.parameters()) weight.normal_(0, 0.2);
  const auto weights = network.named_parameters();
  for (auto& item : whole.named_parameters()) item.value().copy_(weights[item.key()]);
  const at::Tensor pixels = torch::randn({2, 3, 224, 224}, at::detail::createCPUGenerator(4));
  const at::Tensor expected = torch::adaptive_avg_pool2d(whole.forward(pixels), {7, 7});
  EXPECT_LT((network.forward(pixels) - expected).abs().max().item<double>(), 1e-6);
}

TEST(ResNet, RecomputedBlocksGiveTheSameGradientsAndStatistics) {
  const auto after = [](const ActivationCheckpointing& recomputed) {
    const auto network = pair(BatchNormStatistics::kCollected).ours;
    const ScopedActivationCheckpointing scope(*network, recomputed);
    network->forward(images()).square().sum().backward();
    std::vector<at::Tensor> left;
    for (const at::Tensor& buffer : network->buffers()) left.push_back(buffer.clone());
    for (const at::Tensor& parameter : network->parameters()) left.push_back(parameter.grad());
    return left;
  };
  const auto plain = after({}), again = after({.blocks = true});
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(again[i].equal(plain[i])) << i;
  EXPECT_THAT(blocks_of(ResNet({.depth = 12}, at::kMeta)),
              ElementsAre("layer1.0", "layer1.1", "layer2.0", "layer3.0", "layer4.0"));
}

}  // namespace
}  // namespace stages
