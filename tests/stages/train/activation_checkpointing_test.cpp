// Checks that gradients stay the same bit for bit if parts of the network are recomputed, however
// the batch is split, and that less memory is needed.

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/counting_allocator.h"
#include "stages/model/attached_lora.h"
#include "stages/model/vision_tower.h"
#include "stages/weights/weights.h"
#include "tests/support/gradients.h"
#include "tests/support/on_test_device.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

const ActivationCheckpointing kBlocks{.blocks = true};

TEST(ActivationCheckpointing, GradientsKeepTheirBits) {
  const Batch batch = ten_samples();
  for (const Drops drops : kEveryDrop) {
    DroppingNet net(drops);
    for (const bool two_pass : {false, true}) {
      for (const std::int64_t micro_batch : {0, 3, 10}) {
        StepPlan plan{.micro_batch = micro_batch, .two_pass = two_pass};
        const at::Tensor kept = gradient_of(DroppingStep(), net, batch, plan);
        for (const ActivationCheckpointing& modules :
             {kBlocks, ActivationCheckpointing{.modules = {"block.mlp"}},
              ActivationCheckpointing{.modules = {"block.*"}}}) {
          plan.activation_checkpointing = modules;
          EXPECT_TRUE(gradient_of(DroppingStep(), net, batch, plan).equal(kept))
              << static_cast<int>(drops) << " " << two_pass << " " << micro_batch;
        }
      }
    }
  }
}

TEST(ActivationCheckpointing, GradientsOfGroupsKeepTheirBits) {
  const Batch batch = four_groups();  // two inputs with their own dropout masks
  DroppingNet net(Drops::kAll);
  for (const bool two_pass : {false, true}) {
    for (const std::int64_t micro_batch : {0, 3}) {
      StepPlan plan{.micro_batch = micro_batch, .two_pass = two_pass};
      const at::Tensor kept = gradient_of(GroupStep(), net, batch, plan);
      plan.activation_checkpointing = kBlocks;
      EXPECT_TRUE(gradient_of(GroupStep(), net, batch, plan).equal(kept))
          << two_pass << " " << micro_batch;
    }
  }
}

/// Cross-entropy of the logits of an ImageClassifier.
class TowerStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return dynamic_cast<ImageClassifier&>(network).forward(part["image"]);
  }
};

struct Tower {
  bool is_clip = true;
  bool drops = false;
  bool has_lora = false;
  bool is_frozen = false;  // except for its head
  at::ScalarType type = at::kFloat;
  std::int64_t width = 8, layers = 2, size = 8;
};

std::shared_ptr<ImageClassifier> network_of(const Tower& one) {
  ImageClassifierOptions options;
  VisionTowerOptions& tower = options.tower;
  tower.block = {.hidden_size = one.width,
                 .intermediate_size = 4 * one.width,
                 .num_attention_heads = 2,
                 .hidden_act = one.is_clip ? Activation::kQuickGelu : Activation::kGelu,
                 .layer_norm_eps = 1e-5,
                 .attention_dropout = one.drops ? 0.3 : 0,
                 .fused_qkv = !one.is_clip};
  tower.num_hidden_layers = one.layers;
  tower.patch_size = 4;
  tower.image_size = one.size;
  tower.drop_path = one.drops ? 0.4 : 0;
  tower.norm_before_blocks = one.is_clip;
  tower.patch_bias = !one.is_clip;
  options.num_classes = 3;
  options.dropout = one.drops ? 0.2 : 0;
  const auto network = std::make_shared<ImageClassifier>(options);
  network->to(one.type);
  {
    const torch::NoGradGuard no_graph;
    std::uint64_t seed = 0;
    for (at::Tensor& weight : network->parameters())
      weight.normal_(0, 0.2, at::detail::createCPUGenerator(++seed));
  }
  if (one.has_lora) {
    LoraOptions lora{.rank = 2, .alpha = 4};
    lora.targets = std::vector<std::string>{"q_proj", "fc1"};
    attach_lora(*network, lora, clip_names, 5);
    const torch::NoGradGuard no_graph;
    for (auto& [name, weight] : trained_parameters(*network))
      at::Tensor(weight).normal_(0, 0.2, at::detail::createCPUGenerator(77));
  }
  if (one.is_frozen) {
    for (const auto& entry : network->named_parameters())
      if (!entry.key().starts_with("head")) at::Tensor(entry.value()).requires_grad_(false);
  }
  return network;
}

Batch images(const Tower& one, std::int64_t rows = 5) {
  return Batch({{"image", torch::randn({rows, 3, one.size, one.size},
                                       at::detail::createCPUGenerator(9), one.type)},
                {"label", torch::arange(rows) % 3}},
               rows);
}

at::Tensor gradient(const Tower& one, const StepPlan& plan) {
  const auto network = network_of(one);
  network->to(at::Device(test_device()));
  const PreparedNetwork prepared(*network, plan.numerics, at::Device(test_device()));
  accumulate_gradient(TowerStep(), prepared, prepared.placed(images(one)), 5, plan, {7, 1});
  std::vector<at::Tensor> all;
  for (const auto& [name, parameter] : trained_parameters(*network))
    all.push_back(parameter.grad().flatten());
  return torch::cat(all);
}

TEST(ActivationCheckpointing, TowersKeepTheirBits) {
  for (const Tower& one :
       {Tower{}, Tower{.drops = true}, Tower{.is_clip = false},
        Tower{.is_clip = false, .drops = true}, Tower{.drops = true, .has_lora = true},
        Tower{.drops = true, .is_frozen = true}, Tower{.drops = true, .type = at::kDouble},
        Tower{.type = at::kDouble}}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      if (one.type == at::kDouble && precision != Precision::kFp32) continue;
      for (const auto& [micro_batch, two_pass] :
           {std::pair(0, false), std::pair(2, false), std::pair(2, true)}) {
        StepPlan plan{
            .micro_batch = micro_batch, .two_pass = two_pass, .numerics = {.precision = precision}};
        const at::Tensor kept = gradient(one, plan);
        for (const ActivationCheckpointing& modules :
             {kBlocks, ActivationCheckpointing{.modules = {"vision_model.encoder.layers.*.mlp",
                                                           "vision_model.encoder.layers.1"}}}) {
          plan.activation_checkpointing = modules;
          EXPECT_TRUE(gradient(one, plan).equal(kept))
              << one.is_clip << one.drops << one.has_lora << one.is_frozen << " " << name(precision)
              << " " << micro_batch << " " << two_pass;
        }
      }
    }
  }
}

TEST(ActivationCheckpointing, PeakEqualsThatOfOneBlock) {
  const Tower one{.width = 32, .layers = 8, .size = 32};
  const auto network = network_of(one);
  const Batch batch = images(one, 8);
  const auto peak = [&](const ActivationCheckpointing& modules) {
    const CountingAllocator counter;
    accumulate_gradient(TowerStep(), {*network, {}, at::kCPU}, batch, 8,
                        {.activation_checkpointing = modules}, {7, 1});
    const std::int64_t peak = counter.peak_bytes();
    network->zero_grad();
    return static_cast<double>(peak);
  };
  const double kept = peak({}), blocks = peak(kBlocks),
               products = peak({.modules = {"vision_model.encoder.layers.*.mlp"}});
  EXPECT_LT(blocks, 0.4 * kept);
  EXPECT_LT(products, 0.8 * kept);
  EXPECT_LT(blocks, products);
}

}  // namespace
}  // namespace stages
