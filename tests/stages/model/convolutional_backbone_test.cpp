#include "stages/model/convolutional_classifier.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/recomputable_module.h"
#include "stages/plan/meta_kernels.h"
#include "stages/tensor/named_tensors.h"
#include "tests/support/chance.h"
#include "tests/support/number_of_weights.h"

namespace stages {
namespace {

ConvolutionalBackbone architecture(std::string_view name) {
  for (const auto& [known, backbone] : convolutional_architectures()) {
    if (known == name) return backbone;
  }
  throw std::invalid_argument(std::string(name));
}

/// Weights and buffers in the order of a state dict of torch in Python.
void walk(const torch::nn::Module& module, const std::string& prefix,
          const std::function<void(const std::string&, at::Tensor)>& see) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    see(prefix + item.key(), item.value());
  for (const auto& item : module.named_buffers(/*recurse=*/false))
    see(prefix + item.key(), item.value());
  for (const auto& item : module.named_children())
    walk(*item.value(), prefix + item.key() + ".", see);
}

TEST(ConvolutionalBackbone, HasThePublishedSizes) {
  // timm's counts, without its classifier for 1000 classes.
  struct Published {
    const char* name;
    std::int64_t parameters, features, first_layers = 0;
  };
  for (const Published& published : {Published{"seresnext50_32x4d", 27559896, 2048},
                                     {"resnet50", 25557032, 2048},
                                     {"densenet121", 7978856, 1024},
                                     {"efficientnet_b2", 9109994, 1408},
                                     {"mobilenetv2_100", 3504872, 1280}}) {
    const auto network = make_backbone(architecture(published.name), at::kMeta);
    EXPECT_EQ(network->shape(224, 224)->channels, published.features) << published.name;
    EXPECT_EQ(number_of_weights(*network), published.parameters - 1000 * (published.features + 1))
        << published.name;
  }
  const auto network = make_backbone(architecture("seresnext50_32x4d"), at::kMeta);
  EXPECT_EQ(number_of_weights(*network), 25510896);
  std::map<std::string, std::int64_t> stages;
  for (const auto& item : network->named_children())
    stages[item.key()] = number_of_weights(*item.value());
  EXPECT_EQ(stages.at("layer1"), 231216);
  EXPECT_EQ(stages.at("layer2"), 1330304);
  EXPECT_EQ(stages.at("layer3"), 7815552);
  EXPECT_EQ(stages.at("layer4"), 16124288);
}

TEST(ConvolutionalBackbone, ReportsItsOutputShape) {
  register_meta_kernels();
  for (const auto& [name, backbone] : convolutional_architectures()) {
    const auto network = make_backbone(shrunken_backbone(backbone), at::kMeta);
    const bool is_dense = std::holds_alternative<DenseOptions>(backbone);
    for (const std::int64_t size : {29, 32, 33, 47, 64, 84, 99, 224, 299}) {
      const auto shape = network->shape(size, size + 9);
      ASSERT_TRUE(shape) << name << size;
      const at::Tensor maps = network->forward(torch::empty({2, 3, size, size + 9}, at::kMeta));
      EXPECT_EQ(*shape, (MapShape{maps.size(1), maps.size(2), maps.size(3)})) << name << size;
    }
    EXPECT_EQ(network->shape(28, 224).has_value(), !is_dense) << name;
  }
}

TEST(ConvolutionalBackbone, GateWidthsMatchTimm) {
  for (const auto& [planes, squeezed] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{64, 16}, {56, 16}, {20, 8}}) {
    const auto network =
        make_backbone(BottleneckOptions{.squeeze_ratio = 16, .planes = planes}, at::kMeta);
    EXPECT_EQ(network->named_parameters()["layer1.0.se.fc1.weight"].size(0), squeezed) << planes;
  }
}

TEST(ConvolutionalBackbone, OutputsMatchTimm) {
  // Computes in float64, so that only timm's rounding error remains, on any processor.
  const auto network = make_backbone(architecture("seresnext50_32x4d"), at::kDouble);
  const torch::NoGradGuard no_graph;
  std::int64_t number = 0;
  walk(*network, "", [&](const std::string& name, at::Tensor weight) {
    if (weight.scalar_type() == at::kLong) return;
    const at::Tensor s =
        (torch::arange(weight.numel(), at::kDouble) * 0.37 + static_cast<double>(number++))
            .sin()
            .view(weight.sizes());
    const bool is_norm = name.find("bn") != name.npos || name.find("downsample.1") != name.npos;
    const auto set = [&](const at::Tensor& values) { weight.copy_(values.to(at::kFloat)); };
    if (name.ends_with("running_var")) set(1 + 0.1 * s.abs());
    else if (is_norm && name.ends_with("weight")) set(1 + 0.1 * s);
    else if (weight.dim() >= 2) set(s * std::sqrt(2 / static_cast<double>(weight[0].numel())));
    else set(0.05 * s);
  });
  network->eval();
  const at::Tensor pixels =
      (torch::arange(3 * 64 * 64, at::kDouble) * 0.01).sin().view({1, 3, 64, 64}).to(at::kFloat);
  const at::Tensor pooled = network->forward(pixels.to(at::kDouble)).mean({2, 3})[0];
  // The expected values were computed by timm aa4b5850 in float32.
  const at::Tensor first =
      torch::tensor({0.0, 0.8215623, 1.7463655, 0.0, 0.6046070, 2.0959136}, at::kFloat);
  EXPECT_LT((pooled.slice(0, 0, 6) - first).abs().max().item<double>(), 1e-4)
      << pooled.slice(0, 0, 6);
  EXPECT_NEAR(pooled.sum().item<double>(), 1604.438, 0.01);
}

TEST(ConvolutionalBackbone, InitializationMatchesTimm) {
  const auto expect_spread = [](FeatureMaps& network, const char* name, double deviation) {
    const at::Tensor& weight = network.named_parameters()[name];
    EXPECT_NEAR(weight.std().item<double>(), deviation, deviation_error(deviation, weight.numel()))
        << name;
  };
  for (const char* name : {"seresnext50_32x4d", "densenet121", "efficientnet_b2"}) {
    const auto network = make_backbone(architecture(name), at::kFloat);
    const torch::NoGradGuard no_graph;
    for (at::Tensor weight : network->parameters()) weight.fill_(NAN);
    initialize_backbone(architecture(name), *network, 3);
    for (const auto& item : network->named_parameters())
      EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
    if (std::string_view(name) == "seresnext50_32x4d") {
      expect_spread(*network, "layer3.1.conv2.weight", std::sqrt(2.0 / (512 * 9)));
      expect_spread(*network, "layer3.1.se.fc1.weight", std::sqrt(2.0 / 64));
      EXPECT_EQ(network->named_parameters()["layer3.1.bn3.weight"].abs().max().item<double>(), 0);
      EXPECT_EQ(network->named_parameters()["layer3.1.bn2.weight"].min().item<double>(), 1);
      const double bias =
          network->named_parameters()["layer4.1.se.fc1.bias"].abs().max().item<double>();
      EXPECT_LT(bias, 1 / std::sqrt(2048.0));
      EXPECT_GT(bias, 0.9 / std::sqrt(2048.0));
    } else if (std::string_view(name) == "densenet121") {
      expect_spread(*network, "features.denseblock3.denselayer9.conv2.weight",
                    std::sqrt(2.0 / (128 * 9)));
      EXPECT_EQ(network->named_parameters()["features.norm5.weight"].min().item<double>(), 1);
    } else {
      expect_spread(*network, "blocks.5.1.conv_dw.weight", std::sqrt(2.0 / 25));
      expect_spread(*network, "blocks.5.1.conv_pwl.weight", std::sqrt(2.0 / 208));
      EXPECT_EQ(
          network->named_parameters()["blocks.5.1.se.conv_reduce.bias"].abs().max().item<double>(),
          0);
    }
  }
}

/// Runs one forward and backward pass of a small network, with its blocks recomputed or not.
std::shared_ptr<FeatureMaps> stepped(const ConvolutionalBackbone& backbone,
                                     std::optional<bool> updates_twice) {
  auto network = make_backbone(shrunken_backbone(backbone), at::kDouble);
  initialize_backbone(backbone, *network, 5);
  {
    const torch::NoGradGuard no_graph;  // so that each branch has an effect
    for (const auto& item : network->named_parameters()) {
      if (item.key().ends_with("bn3.weight")) item.value().fill_(0.5);
    }
  }
  const at::Tensor pixels = torch::arange(4 * 3 * 64 * 64, at::kDouble).sin().view({4, 3, 64, 64});
  std::optional<ScopedActivationCheckpointing> recomputed;
  if (updates_twice) {
    ActivationCheckpointing blocks{.blocks = true};
    blocks.updates_twice = *updates_twice;
    recomputed.emplace(*network, blocks);
  }
  const at::Tensor maps = network->forward(pixels);
  (maps * torch::arange(maps.numel(), at::kDouble).cos().view(maps.sizes())).sum().backward();
  return network;
}

TEST(ConvolutionalBackbone, RecomputedBlocksGiveTheSameGradientAndCollectStatisticsOnce) {
  for (const auto& [name, backbone] : convolutional_architectures()) {
    const auto plain = stepped(backbone, std::nullopt), once = stepped(backbone, false);
    for (const auto& item : plain->named_parameters())
      EXPECT_TRUE(item.value().grad().equal(once->named_parameters()[item.key()].grad()))
          << name << item.key();
    for (const auto& item : plain->named_buffers())
      EXPECT_TRUE(item.value().equal(once->named_buffers()[item.key()])) << name << item.key();
  }
}

TEST(ConvolutionalBackbone, CollectingTwiceMatchesTimmAndMovesStatisticsFaster) {
  const ConvolutionalBackbone backbone = architecture("seresnext50_32x4d");
  const auto plain = stepped(backbone, std::nullopt)->named_buffers(),
             twice = stepped(backbone, true)->named_buffers();
  EXPECT_EQ(twice["layer2.1.bn1.num_batches_tracked"].item<std::int64_t>(), 2);
  EXPECT_EQ(twice["bn1.num_batches_tracked"].item<std::int64_t>(), 1);
  EXPECT_TRUE(torch::allclose(twice["layer2.1.bn1.running_mean"],
                              1.9 * plain["layer2.1.bn1.running_mean"], 1e-9));
  EXPECT_TRUE(twice["bn1.running_mean"].equal(plain["bn1.running_mean"]));
}

TEST(ConvolutionalBackbone, HasSixteenBlocks) {
  std::int64_t blocks = 0;
  for (const auto& module :
       make_backbone(architecture("seresnext50_32x4d"), at::kMeta)->modules()) {
    const auto* recomputable = dynamic_cast<const RecomputableModule*>(module.get());
    blocks += recomputable && recomputable->is_block();
  }
  EXPECT_EQ(blocks, 16);
}

}  // namespace
}  // namespace stages
