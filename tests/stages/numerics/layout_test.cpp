#include "stages/numerics/numerics.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/convolutional_networks.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

constexpr auto kContiguous = Layout::kContiguous, kChannelsLast = Layout::kChannelsLast;

bool lies_channels_last(const at::Tensor& tensor) {
  return tensor.is_contiguous(at::MemoryFormat::ChannelsLast) && !tensor.is_contiguous();
}

Layout chosen_layout(const torch::nn::Module& network, at::DeviceType device = at::kCPU,
                     bool reduced = false) {
  return choose_layout(count_layers(network), device, reduced);
}

TEST(Layout, NamesMatchTheSchema) {
  EXPECT_EQ(name(kContiguous), "contiguous");
  EXPECT_EQ(name(kChannelsLast), "channels_last");
}

TEST(Layout, WeightsChangeLayoutAndKeepTheirValuesAndIdentity) {
  const auto network = conv4();
  const at::Tensor weight = network->parameters()[4],
                   bias = network->parameters()[5];  // the bias of the second convolution
  ASSERT_EQ(weight.dim(), 4);
  const at::Tensor before = weight.detach().clone();
  set_layout(*network, kChannelsLast);
  EXPECT_TRUE(lies_channels_last(weight));
  EXPECT_TRUE(weight.equal(before));
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_TRUE(bias.is_contiguous());
  set_layout(*network, kContiguous);
  EXPECT_TRUE(weight.is_contiguous());
  EXPECT_TRUE(weight.equal(before));
}

TEST(Layout, TensorsAlreadyInTheLayoutAreNotCopied) {
  const auto network = conv4();
  const void* const data = network->parameters()[4].data_ptr();
  set_layout(*network, kContiguous);
  EXPECT_EQ(network->parameters()[4].data_ptr(), data);
  set_layout(*network, kChannelsLast);
  const void* const moved = network->parameters()[4].data_ptr();
  EXPECT_NE(moved, data);
  set_layout(*network, kChannelsLast);
  EXPECT_EQ(network->parameters()[4].data_ptr(), moved);
}

TEST(Layout, OnlyImagesInABatchChangeLayout) {
  const at::Tensor images = torch::randn({2, 3, 4, 4}), labels = torch::zeros(2, at::kLong);
  Batch batch(
      {{"image", images}, {"label", labels}, {"mask", torch::ones({2, 3, 4, 4}, at::kBool)}}, 2);
  batch.indices = {7, 8};
  const Batch moved = in_layout(batch, kChannelsLast);
  EXPECT_TRUE(lies_channels_last(moved["image"]));
  EXPECT_TRUE(moved["image"].equal(images));
  EXPECT_TRUE(moved["mask"].is_contiguous());
  EXPECT_TRUE(moved["label"].is_same(labels));
  EXPECT_EQ(moved.indices, batch.indices);
  EXPECT_TRUE(lies_channels_last(moved.part(1, 2)["image"]));
  EXPECT_TRUE(in_layout(batch, kContiguous)["image"].is_same(images));
}

TEST(Layout, ResultAndGradientAreEqual) {
  for (const auto& make : {&conv4, &grouped_bottlenecks, &patch_transformer}) {
    const auto plain = make(8, 3), moved = make(8, 3);  // equal because of the seed
    const at::Tensor images = torch::randn({4, 3, 16, 16}, at::kDouble);
    plain->to(at::kDouble);
    moved->to(at::kDouble);
    set_layout(*moved, kChannelsLast);
    const Batch batch = in_layout(Batch({{"image", images}}, 4), kChannelsLast);
    const at::Tensor a = forward(*plain, images), b = forward(*moved, batch["image"]);
    EXPECT_LT((a - b).norm().item<double>(), 1e-12 * a.norm().item<double>());
    const auto plain_gradients = torch::autograd::grad({a.square().sum()}, plain->parameters());
    const auto moved_gradients = torch::autograd::grad({b.square().sum()}, moved->parameters());
    for (std::size_t i = 0; i < plain_gradients.size(); ++i) {
      const double scale = 1 + plain_gradients[i].norm().item<double>();
      EXPECT_LT((plain_gradients[i] - moved_gradients[i]).norm().item<double>(), 1e-10 * scale)
          << i;
    }
  }
}

TEST(Layout, FilesDoNotDependOnTheLayoutAndLoadingKeepsIt) {
  const TemporaryFolder folder;
  const auto network = conv4();
  write_safetensors(folder / "plain.safetensors", weights(*network));
  set_layout(*network, kChannelsLast);
  write_safetensors(folder / "moved.safetensors", weights(*network));
  const auto bytes = [&](const char* name) {
    std::ostringstream text;
    text << std::ifstream(folder / name, std::ios::binary).rdbuf();
    return text.str();
  };
  EXPECT_EQ(bytes("plain.safetensors"), bytes("moved.safetensors"));
  set_weights(*network, read_safetensors(folder / "plain.safetensors").tensors);
  EXPECT_TRUE(lies_channels_last(network->parameters()[4]));
}

TEST(LayoutRule, ConvolutionalNetworksUseChannelsLast) {
  EXPECT_EQ(chosen_layout(*conv4()), kChannelsLast);
  EXPECT_EQ(chosen_layout(*grouped_bottlenecks()), kChannelsLast);
}

TEST(LayoutRule, PatchEmbeddingDoesNotCountAsAConvolution) {
  EXPECT_EQ(count_layers(*patch_transformer()).convolutions, 0);
  EXPECT_EQ(chosen_layout(*patch_transformer()), kContiguous);
}

TEST(LayoutRule, DepthwiseConvolutionDoesNotCount) {
  const torch::nn::Sequential network(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).groups(8)));
  EXPECT_EQ(chosen_layout(*network), kContiguous);
}

TEST(LayoutRule, FewConvolutionsBeforeATransformerDoNotCount) {
  EXPECT_EQ(choose_layout({.convolutions = 4, .all = 16}, at::kCPU, false), kChannelsLast);
  EXPECT_EQ(choose_layout({.convolutions = 4, .all = 17}, at::kCPU, false), kContiguous);
  EXPECT_EQ(choose_layout({}, at::kCPU, false), kContiguous);
}

TEST(LayoutRule, GpuUsesChannelsLastOnlyOnTensorCores) {
  EXPECT_EQ(chosen_layout(*conv4(), at::kCUDA, /*reduced=*/false), kContiguous);
  EXPECT_EQ(chosen_layout(*conv4(), at::kCUDA, /*reduced=*/true), kChannelsLast);
}

}  // namespace
}  // namespace stages
