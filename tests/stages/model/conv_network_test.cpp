#include "stages/model/convolutional_networks.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/recomputable_module.h"
#include "stages/plan/meta_kernels.h"
#include "tests/support/convolutional_networks.h"
#include "tests/support/number_of_weights.h"

namespace stages {
namespace {

using testing::ElementsAre;

TEST(ConvNetwork, HasThePublishedSizes) {
  EXPECT_EQ(number_of_weights(ConvNetwork({.blocks = 4}, at::kMeta)), 113088);
  EXPECT_EQ(number_of_weights(ConvNetwork({.blocks = 6}, at::kMeta)), 187200);
  for (const std::int64_t blocks : {4, 6}) {
    const ConvNetwork network({.blocks = blocks}, at::kMeta);
    EXPECT_EQ(network.shape(84, 84)->features(), 1600);
    EXPECT_EQ(network.shape(64, 64)->features(), 1024);
  }
}

TEST(ConvNetwork, ReportsItsOutputShape) {
  register_meta_kernels();
  const ConvNetwork network({.blocks = 5, .channels = 3}, at::kMeta);
  for (const std::int64_t size : {16, 17, 31, 32, 47, 84}) {
    const at::Tensor maps = network.forward(torch::empty({2, 3, size, size + 5}, at::kMeta));
    EXPECT_EQ(*network.shape(size, size + 5), (MapShape{maps.size(1), maps.size(2), maps.size(3)}))
        << size;
  }
  EXPECT_FALSE(network.shape(15, 84));
  EXPECT_FALSE(network.shape(84, 15));
}

/// A network with the weights of torch's layers, `stacked`, in the same order.
std::shared_ptr<ConvNetwork> like(const torch::nn::Module& stacked,
                                  BatchNormStatistics statistics) {
  auto network = std::make_shared<ConvNetwork>(
      ConvNetworkOptions{.channels = 8, .statistics = statistics}, at::kDouble);
  const torch::NoGradGuard no_graph;
  const auto theirs = stacked.parameters();
  auto ours = network->parameters();
  for (std::size_t i = 0; i < ours.size(); ++i)
    ours[i].copy_(theirs[i]);  // theirs also has a classifier
  return network;
}

at::Tensor images() {
  return torch::randn({5, 3, 36, 36}, at::detail::createCPUGenerator(4), at::kDouble);
}

/// Bounds the rounding error of four layers. Each sums 9 x 8 products and is normalized over at
/// most the 5 x 36 x 36 pixels of a map.
constexpr double kRounding = 4 * (9 * 8 + 5 * 36 * 36) * std::numeric_limits<double>::epsilon();

/// Returns the output of torch's layers before the classifier.
at::Tensor stacked_maps(torch::nn::SequentialImpl& stacked, const at::Tensor& pixels) {
  constexpr std::ptrdiff_t kLayers = 16;
  torch::nn::SequentialImpl blocks;
  for (auto layer = stacked.begin(); layer != stacked.begin() + kLayers; ++layer)
    blocks.push_back(*layer);
  return blocks.forward(pixels);
}

TEST(ConvNetwork, MatchesASequenceOfTorchLayers) {
  const auto stacked = conv4(8);
  stacked->to(at::kDouble);
  const auto network = like(*stacked, BatchNormStatistics::kCollected);
  for (int step = 0; step < 2; ++step) {
    const at::Tensor expected = stacked_maps(*stacked, images() + step),
                     maps = network->forward(images() + step);
    EXPECT_LT((maps - expected).abs().max().item<double>(),
              kRounding * expected.abs().max().item<double>());
    maps.square().sum().backward();
    expected.square().sum().backward();
  }
  const auto theirs = stacked->parameters(), ours = network->parameters();
  double largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    largest = std::max(largest, theirs[i].grad().norm().item<double>());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = (ours[i].grad() - theirs[i].grad()).norm().item<double>();
    // The normalization after a convolution cancels its bias, so the gradient of the bias is only
    // rounding error.
    EXPECT_LT(difference, kRounding * std::max(theirs[i].grad().norm().item<double>(), largest))
        << i;
  }
  const auto their_buffers = stacked->buffers(), our_buffers = network->buffers();
  ASSERT_EQ(our_buffers.size(), their_buffers.size());
  for (std::size_t i = 0; i < our_buffers.size(); ++i)
    EXPECT_TRUE(torch::allclose(our_buffers[i].to(at::kDouble), their_buffers[i].to(at::kDouble),
                                kRounding, kRounding))
        << i;
  stacked->eval();
  network->eval();
  const at::Tensor evaluated = stacked_maps(*stacked, images());
  EXPECT_LT((network->forward(images()) - evaluated).abs().max().item<double>(),
            kRounding * evaluated.abs().max().item<double>());
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.clone());
  return result;
}

bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b,
                            [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

TEST(ConvNetwork, BatchStatisticsAreAlsoUsedInEvalModeAndNeverCollected) {
  const auto network = like(*conv4(8), BatchNormStatistics::kOfBatch);
  const torch::NoGradGuard no_graph;
  const auto before = copies(network->buffers());
  const at::Tensor trained = network->forward(images());
  network->eval();
  EXPECT_TRUE(network->forward(images()).equal(trained));
  EXPECT_FALSE(network->forward(images().slice(0, 0, 2)).equal(trained.slice(0, 0, 2)));
  EXPECT_TRUE(are_equal(network->buffers(), before));
}

TEST(ConvNetwork, FixedStatisticsAreAlsoUsedInTrainingAndKeepImagesIndependent) {
  const auto network = like(*conv4(8), BatchNormStatistics::kFixed);
  const torch::NoGradGuard no_graph;
  const auto before = copies(network->buffers());
  const at::Tensor trained = network->forward(images());
  EXPECT_LT((network->forward(images().slice(0, 0, 2)) - trained.slice(0, 0, 2))
                .abs()
                .max()
                .item<double>(),
            kRounding * trained.abs().max().item<double>());
  network->eval();
  EXPECT_TRUE(network->forward(images()).equal(trained));
  EXPECT_TRUE(are_equal(network->buffers(), before));
}

TEST(ConvNetwork, RecomputedBlocksGiveTheSameGradientsAndStatistics) {
  const auto after = [](const ActivationCheckpointing& recomputed) {
    const auto network = like(*conv4(8), BatchNormStatistics::kCollected);
    const ScopedActivationCheckpointing scope(*network, recomputed);
    network->forward(images()).square().sum().backward();
    std::vector<at::Tensor> left = copies(network->buffers());
    for (const at::Tensor& parameter : network->parameters()) left.push_back(parameter.grad());
    return left;
  };
  const auto plain = after({});
  EXPECT_TRUE(are_equal(after({.blocks = true}), plain));
  EXPECT_FALSE(are_equal(after({.blocks = true, .updates_twice = true}), plain));
  EXPECT_THAT(blocks_of(ConvNetwork({}, at::kMeta)),
              ElementsAre("blocks.0", "blocks.1", "blocks.2", "blocks.3"));
}

}  // namespace
}  // namespace stages
