#include "stages/model/attached_lora.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/weights/weights.h"
#include "tests/support/chance.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using List = std::vector<std::string>;

constexpr std::uint64_t kSeed = 5;
const std::string kBlock = "vision_model.encoder.layers.0.";

LoraOptions queries() {
  LoraOptions options{.rank = 2, .alpha = 4};
  options.targets = List{"q_proj"};
  return options;
}

List names_of(const NamedTensors& tensors) {
  List names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

at::Tensor pixels() {
  return torch::randn({2, 3, 8, 8}, at::detail::createCPUGenerator(9), torch::kFloat64);
}

at::Tensor logits(const ImageClassifier& network) { return network.forward(pixels()).at("logits"); }

TEST(AttachedLora, OnlyTheAdaptersRequireGrad) {
  const auto network = tiny_tower();
  const AttachedLora lora = attach_lora(*network, queries(), clip_names, kSeed);
  EXPECT_THAT(names_of(trained_parameters(*network)),
              ElementsAre(kBlock + "self_attn.q_proj.lora_A.weight",
                          kBlock + "self_attn.q_proj.lora_B.weight",
                          "vision_model.encoder.layers.1.self_attn.q_proj.lora_A.weight",
                          "vision_model.encoder.layers.1.self_attn.q_proj.lora_B.weight"));
  EXPECT_THAT(lora.layers, testing::SizeIs(2));
  EXPECT_EQ(lora.layers[0].layer->adapter()->scaling(), 2);
}

TEST(AttachedLora, FirstOutputIsUnchangedAndEveryAdapterGetsAGradient) {
  const auto network = tiny_tower();
  const at::Tensor before = logits(*network);
  const AttachedLora lora = attach_lora(*network, queries(), clip_names, kSeed);
  const at::Tensor after = logits(*network);
  EXPECT_TRUE(after.equal(before));
  after.square().sum().backward();
  for (const LoraLayer& layer : lora.layers) {
    // While B is zero, so is the gradient of A.
    EXPECT_GT(layer.layer->adapter()->b().grad().abs().min().item<double>(), 0) << layer.module;
    EXPECT_EQ(layer.layer->adapter()->a().grad().abs().max().item<double>(), 0) << layer.module;
    EXPECT_FALSE(layer.layer->weight.grad().defined()) << layer.module;
  }
}

TEST(AttachedLora, InitialWeightsDependOnTheSeedAndTheName) {
  LoraOptions options = queries();
  options.targets = List{"q_proj", "fc1"};
  const auto one = tiny_tower(), two = tiny_tower(), three = tiny_tower();
  const auto first = [](const AttachedLora& lora) { return lora.layers[0].layer->adapter()->a(); };
  const AttachedLora alone = attach_lora(*one, queries(), clip_names, kSeed);
  const AttachedLora beside = attach_lora(*two, options, inner_names, kSeed);
  const AttachedLora other = attach_lora(*three, queries(), clip_names, kSeed + 1);
  EXPECT_TRUE(first(alone).equal(first(beside)));
  EXPECT_FALSE(first(alone).equal(first(other)));
  EXPECT_FALSE(first(alone).equal(alone.layers[1].layer->adapter()->a()));
}

TEST(AttachedLora, InitializationsHaveTheirStandardDeviation) {
  const auto expect_spread = [](const at::Tensor& weight, double deviation) {
    EXPECT_NEAR(weight.std().item<double>(), deviation, deviation_error(deviation, weight.numel()));
  };
  const auto spread = [](LoraInitialization initialization, int factor) {
    const auto layer = std::make_shared<Linear>(400, 300, false, torch::kFloat64);
    const auto holder = std::make_shared<torch::nn::Module>();
    holder->register_module("fc", layer);
    LoraOptions options{.rank = 100, .initialization = initialization};
    options.targets = List{"fc"};
    attach_lora(
        *holder, options, [](std::string_view ours) { return std::optional<std::string>(ours); },
        kSeed);
    return (factor == 0 ? layer->adapter()->a() : layer->adapter()->b()).detach();
  };
  const at::Tensor kaiming = spread(LoraInitialization::kKaiming, 0);
  EXPECT_LE(kaiming.abs().max().item<double>(), 1 / 20.0);
  expect_spread(kaiming, 1 / 20.0 / std::sqrt(3.0));
  const at::Tensor gaussian = spread(LoraInitialization::kGaussian, 0);
  EXPECT_GT(gaussian.abs().max().item<double>(), 0.03);
  expect_spread(gaussian, 0.01);
  EXPECT_EQ(spread(LoraInitialization::kGaussian, 1).abs().max().item<double>(), 0);
  const at::Tensor random = spread(LoraInitialization::kRandom, 1);
  EXPECT_LE(random.abs().max().item<double>(), 0.1);
  expect_spread(random, 0.1 / std::sqrt(3.0));
}

TEST(AttachedLora, BiasesAreTrainedIfConfigured) {
  LoraOptions options = queries();
  options.bias = LoraBias::kAdapted;
  auto network = tiny_tower();
  AttachedLora lora = attach_lora(*network, options, inner_names, kSeed);
  EXPECT_THAT(names_of(adapter_tensors(lora, inner_names)),
              ElementsAre("encoder.layers.0.self_attn.q_proj.lora_A.weight",
                          "encoder.layers.0.self_attn.q_proj.lora_B.weight",
                          "encoder.layers.1.self_attn.q_proj.lora_A.weight",
                          "encoder.layers.1.self_attn.q_proj.lora_B.weight",
                          "encoder.layers.0.self_attn.q_proj.base_layer.bias",
                          "encoder.layers.1.self_attn.q_proj.base_layer.bias"));
  EXPECT_TRUE(lora.layers[0].layer->bias.requires_grad());
  EXPECT_THAT(trained_parameters(*network), testing::SizeIs(6));

  options.bias = LoraBias::kAll;
  network = tiny_tower();
  lora = attach_lora(*network, options, clip_names, kSeed);
  for (const auto& item : network->named_parameters()) {
    const bool is_bias = item.key().ends_with(".bias") && item.key() != "head.bias";
    EXPECT_EQ(item.value().requires_grad(),
              is_bias || item.key().find(".lora_") != std::string::npos)
        << item.key();
  }
}

TEST(AttachedLora, ModulesToSaveAreFullyTrained) {
  LoraOptions options = queries();
  options.modules_to_save = {"classifier"};
  const auto network = tiny_tower();
  const AttachedLora lora = attach_lora(*network, options, inner_names, kSeed);
  EXPECT_THAT(names_of(adapter_tensors(lora, inner_names)), testing::Contains("classifier.weight"));
  EXPECT_TRUE(trained_parameters(*network).contains("head.weight"));
  options.modules_to_save = {"classifer"};
  EXPECT_REFUSED(attach_lora(*tiny_tower(), options, inner_names, kSeed), kOptionConflict,
                 "/modules_to_save", "'classifer'");
}

TEST(AttachedLora, InvalidOptionsChangeNothing) {
  const auto network = tiny_tower();
  LoraOptions options = queries();
  options.targets = List{"qkv"};
  EXPECT_THROW(attach_lora(*network, options, clip_names, kSeed), runner::StageError);
  for (const at::Tensor& parameter : network->parameters()) EXPECT_TRUE(parameter.requires_grad());
}

TEST(AttachedLora, OptionsKeepTheirMeaningUnderOtherModuleNames) {
  LoraOptions options = queries();
  const auto network = tiny_tower();
  EXPECT_EQ(options_for(attach_lora(*network, options, clip_names, kSeed), inner_names), options);

  options.targets = ".*vision_model\\..*\\.q_proj";
  options.alpha_pattern = {{"layers.1.self_attn.q_proj", 6}};
  const auto second = tiny_tower();
  const AttachedLora lora = attach_lora(*second, options, clip_names, kSeed);
  const LoraOptions restated = options_for(lora, inner_names);
  EXPECT_EQ(std::get<List>(restated.targets),
            (List{"encoder.layers.0.self_attn.q_proj", "encoder.layers.1.self_attn.q_proj"}));
  EXPECT_EQ(chosen_layers(lora, restated, inner_names), adapted_layers(lora));
}

TEST(AttachedLora, MergedNetworkHasNoAdapters) {
  const auto network = tiny_tower();
  const List before = names_of(weights(*network));
  LoraOptions options = queries();
  options.initialization = LoraInitialization::kRandom;
  const at::Tensor own = logits(*network).detach();
  attach_lora(*network, options, clip_names, kSeed);
  const at::Tensor adapted = logits(*network).detach();
  EXPECT_GT((adapted - own).abs().max().item<double>(), 1e-3);
  merge_lora(*network);
  EXPECT_EQ(names_of(weights(*network)), before);
  EXPECT_LT((logits(*network) - adapted).abs().max().item<double>(), 1e-12);
}

TEST(AttachedLora, NonFiniteMergeChangesNothing) {
  const auto network = tiny_tower();
  const AttachedLora lora = attach_lora(*network, queries(), clip_names, kSeed);
  const at::Tensor first = lora.layers[0].layer->weight.clone();
  {
    const torch::NoGradGuard no_graph;
    lora.layers[0].layer->adapter()->b().fill_(1);
    lora.layers[1].layer->adapter()->b().fill_(std::numeric_limits<double>::infinity());
  }
  EXPECT_REFUSED(merge_lora(*network), kStageFailed, "",
                 "'vision_model.encoder.layers.1.self_attn.q_proj'");
  EXPECT_TRUE(lora.layers[0].layer->weight.equal(first));
}

TEST(AttachedLora, FrozenBaseCanBeStoredInHalfPrecision) {
  const auto network = tiny_tower();
  network->to(torch::kFloat32);
  LoraOptions options = queries();
  options.initialization = LoraInitialization::kRandom;
  const AttachedLora lora = attach_lora(*network, options, clip_names, kSeed);
  network->named_modules()["head"]->parameters()[0].set_requires_grad(true);
  const at::Tensor whole = network->forward(pixels().to(torch::kFloat32)).at("logits").detach();
  for (at::Tensor& parameter : network->parameters()) {
    if (!parameter.requires_grad()) parameter.set_data(parameter.to(torch::kBFloat16));
  }
  EXPECT_EQ(lora.layers[0].layer->weight.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(lora.layers[0].layer->adapter()->a().scalar_type(), torch::kFloat32);
  EXPECT_EQ(network->named_parameters()["head.weight"].scalar_type(), torch::kFloat32);
  const at::Tensor held = network->forward(pixels().to(torch::kFloat32)).at("logits");
  EXPECT_EQ(held.scalar_type(), torch::kFloat32);
  const double error = ((held - whole).abs().max() / whole.abs().max()).item<double>();
  EXPECT_GT(error, 1e-6);
  EXPECT_LT(error, 0.05);
  held.square().sum().backward();
  EXPECT_GT(lora.layers[0].layer->adapter()->b().grad().abs().max().item<double>(), 0);
}

TEST(AttachedLora, TrainableParameterCountMatchesPeft) {
  // The tower of CLIP ViT-L/14 with rank 8 on queries and values, as transformers and peft count
  // it.
  VisionTowerOptions tower;
  tower.block = {.hidden_size = 1024,
                 .intermediate_size = 4096,
                 .num_attention_heads = 16,
                 .layer_norm_eps = 1e-5};
  tower.num_hidden_layers = 24;
  tower.patch_size = 14;
  tower.image_size = 224;
  const auto network = std::make_shared<VisionTower>(tower, at::TensorOptions(at::kMeta));
  LoraOptions options{.rank = 8, .alpha = 16};
  options.targets = List{"q_proj", "v_proj"};
  attach_lora(
      *network, options, [](std::string_view ours) { return std::optional<std::string>(ours); },
      kSeed);
  EXPECT_EQ(trainable_line(*network),
            "trainable params: 786,432 || all params: 303,966,208 || trainable%: 0.2587");
}

}  // namespace
}  // namespace stages
