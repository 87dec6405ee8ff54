// Tests of networks for which each rank creates only its own weights.

#include "stages/numerics/sharded_build.h"

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/adapter_layout.h"
#include "stages/model/convolutional_classifier.h"
#include "stages/model/fine_tuned.h"
#include "stages/stages.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/train/sharded_network.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/model_of.h"
#include "tests/support/parts_of_whole.h"
#include "tests/support/saved_clip.h"
#include "tests/support/saved_tower.h"
#include "tests/support/small_backbone.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using Network = std::shared_ptr<torch::nn::Module>;

Network of_rank(const Model& model, int rank, int ranks) {
  return network_of_rank(model, flowers(), rank, ranks);
}

TEST(ShardedBuild, RanksCreatePartsOfTheSameNetwork) {
  const SavedTower saved;
  const Json given = {{"backbone", small({{"weights", saved.file()}})}};
  const Json random = {{"backbone", small()}}, narrow = {{"backbone", small({{"dtype", "bf16"}})}};
  for (const int ranks : {2, 3}) {
    for (const Json& options : {given, random}) {
      expect_parts_of_whole(*model_of(kModelFull, options), flowers(), ranks);
      expect_parts_of_whole(*model_of(kModelLinearProbe, options), flowers(), ranks);
      expect_parts_of_whole(*model_of(kModelLora, options), flowers(), ranks);
    }
    expect_parts_of_whole(*model_of(kModelLora, narrow), flowers(), ranks);
    expect_parts_of_whole(*model_of(kModelClipVision, Json::parse(R"({"hidden_size": 8,
        "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
        "patch_size": 4})")),
                          flowers(), ranks);
  }
}

TEST(ShardedBuild, RanksCreatePartsThatStartFromTextsOrAdapters) {
  const SavedClip saved;
  expect_parts_of_whole(*model_of(kModelFull, {{"backbone", saved.backbone()},
                                               {"head_start", "zero_shot"},
                                               {"templates", {"a photo of a {name}."}}}),
                        saved.images().describe(), 2);
  const TemporaryFolder folder;
  const Json options = {{"backbone", small()}, {"rank", 2}};
  const Network other = model_of(kModelLora, options)->build(flowers(), /*seed=*/9);
  const torch::NoGradGuard no_graph;
  for (at::Tensor& weight : other->parameters()) weight.normal_();
  const auto& adapted = dynamic_cast<const FineTunedClassifier&>(*other);
  save_adapter(folder / "adapter", *adapted.lora, module_names(adapted.layout),
               {"CLIPVisionModel", "", {}});
  Json from_adapter = options;
  from_adapter["adapter"] = (folder / "adapter").string();
  expect_parts_of_whole(*model_of(kModelLora, from_adapter), flowers(), 2);
}

TEST(ShardedBuild, RanksCreatePartsOfConvolutionalNetworks) {
  DatasetDescription data = flowers(64);
  for (const auto& [name, backbone] : convolutional_architectures()) {
    const ConvolutionalClassifier random(
        {.name = std::string(name), .backbone = shrunken_backbone(backbone)}, nullptr);
    for (const int ranks : {2, 3}) expect_parts_of_whole(random, data, ranks);
  }
}

TEST(ShardedBuild, RanksReadPartsOfConvolutionalNetworks) {
  const TemporaryFolder folder;
  const std::string file = (folder / "model.safetensors").string();
  ConvolutionalClassifierConfig config{.name = "resnet50",
                                       .backbone = shrunken_backbone(BottleneckOptions{})};
  const DatasetDescription data = flowers(64);
  const Network other = ConvolutionalClassifier(config, nullptr).build(data, /*seed=*/9);
  NamedTensors tensors;
  for (const auto& [name, weight] : weights(*other)) {
    constexpr std::string_view kBackbone = "backbone.";
    if (name.starts_with(kBackbone)) tensors.set(name.substr(kBackbone.size()), weight.detach());
  }
  write_safetensors(file, tensors);
  config.weights = file;
  const auto saved =
      std::make_shared<SavedWeights>(read_saved_weights(file, WeightContents::kShapes));
  saved->sha256 = weights_sha256(file);
  expect_parts_of_whole(ConvolutionalClassifier(config, saved), data, 2);
}

TEST(ShardedBuild, AdaptersThatStartFromWeightsAreWholeAtFirst) {
  for (const Json& more : {Json{{"initialization", "pissa"}}, Json{{"dora", true}}}) {
    Json options = more;
    options["backbone"] = small();
    const auto model = model_of(kModelLora, options);
    EXPECT_FALSE(model->builds_in_shards()) << more;
    for (const at::Tensor& weight : of_rank(*model, 1, 2)->parameters())
      EXPECT_TRUE(has_memory(weight)) << more;
  }
}

TEST(ShardedBuild, NeedsMemoryForOnePartAndOneBlock) {
  const auto model = model_of(kModelClipVision, Json::parse(R"({"hidden_size": 64,
      "intermediate_size": 256, "num_hidden_layers": 12, "num_attention_heads": 2,
      "patch_size": 4})"));
  const Network whole = model->outline(flowers());
  std::int64_t of_all = 0, of_block = 0;
  for (const auto& item : whole->named_parameters()) {
    const auto bytes = static_cast<std::int64_t>(item.value().nbytes());
    of_all += bytes;
    if (item.key().find(".layers.0.") != std::string::npos) of_block += bytes;
  }
  for (const int rank : {0, 3}) {
    CountingAllocator counter;
    const Network part = of_rank(*model, rank, 4);
    std::int64_t own = 0;
    for (const at::Tensor& weight : part->parameters())
      own += has_memory(weight) ? static_cast<std::int64_t>(weight.nbytes()) : 0;
    EXPECT_LE(counter.peak_bytes(), own + of_block) << rank;
    EXPECT_LT(2 * counter.peak_bytes(), of_all) << rank;
  }
}

TEST(ShardedBuild, EndsWithItsScope) {
  const auto model = model_of(kModelFull, {{"backbone", small()}});
  of_rank(*model, 0, 2);
  for (const at::Tensor& weight : model->build(flowers(), 3)->parameters())
    EXPECT_TRUE(has_memory(weight));
  MemoryPolicy gradients;
  gradients.sharding = Sharding::kGradients;
  EXPECT_FALSE(is_built_in_shards(*model, gradients, {.rank = 0, .size = 2}));
  EXPECT_FALSE(is_built_in_shards(*model, sharded_policy(), {.rank = 0, .size = 1}));
}

}  // namespace
}  // namespace stages
