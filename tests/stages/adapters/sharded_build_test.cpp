// Tests of networks for which each rank creates only its own weights.

#include "stages/numerics/sharded_build.h"

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/stages.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/train/sharded_network.h"
#include "tests/support/model_of.h"
#include "tests/support/saved_tower.h"
#include "tests/support/small_backbone.h"

namespace stages {
namespace {

MemoryPolicy sharded_policy() {
  MemoryPolicy policy;
  policy.sharding = Sharding::kParameters;
  return policy;
}

using Network = std::shared_ptr<torch::nn::Module>;

Network of_rank(const Model& model, int rank, int ranks, bool is_outline = false) {
  const DatasetDescription data = flowers();
  return built_for_rank(
      model, data, TrainerOptions(), sharded_policy(), {.rank = rank, .size = ranks},
      [&] { return is_outline ? model.outline(data) : model.build(data, /*seed=*/3); });
}

bool is_in_block(const std::string& name) { return name.find(".layers.") != name.npos; }

/// Checks the ranks' networks against the whole one: each has the same values where it has any, and
/// every weight of a block is on one rank only.
void expect_parts_of_whole(const Model& model, int ranks) {
  ASSERT_TRUE(model.builds_in_shards());
  const Network whole = model.build(flowers(), /*seed=*/3);
  std::map<std::string, int> keepers;
  for (int rank = 0; rank < ranks; ++rank) {
    const Network part = of_rank(model, rank, ranks), outline = of_rank(model, rank, ranks, true);
    const auto expected = whole->named_parameters(), planned = outline->named_parameters();
    for (const auto& item : part->named_parameters()) {
      const at::Tensor& of_whole = expected[item.key()];
      EXPECT_EQ(item.value().requires_grad(), of_whole.requires_grad()) << item.key();
      EXPECT_EQ(item.value().sizes(), of_whole.sizes()) << item.key();
      EXPECT_EQ(has_memory(item.value()), has_memory(planned[item.key()])) << item.key();
      if (!has_memory(item.value())) continue;
      ++keepers[item.key()];
      EXPECT_TRUE(item.value().equal(of_whole)) << item.key();
    }
  }
  ASSERT_EQ(keepers.size(), whole->named_parameters().size());
  for (const auto& [name, count] : keepers) EXPECT_EQ(count, is_in_block(name) ? 1 : ranks) << name;
}

TEST(ShardedBuild, RanksCreatePartsOfTheSameNetwork) {
  const SavedTower saved;
  const Json given = {{"backbone", small({{"weights", saved.file()}})}};
  const Json random = {{"backbone", small()}}, narrow = {{"backbone", small({{"dtype", "bf16"}})}};
  for (const int ranks : {2, 3}) {
    for (const Json& options : {given, random}) {
      expect_parts_of_whole(*model_of(kModelFull, options), ranks);
      expect_parts_of_whole(*model_of(kModelLinearProbe, options), ranks);
      expect_parts_of_whole(*model_of(kModelLora, options), ranks);
    }
    expect_parts_of_whole(*model_of(kModelLora, narrow), ranks);
    expect_parts_of_whole(*model_of(kModelClipVision, Json::parse(R"({"hidden_size": 8,
        "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
        "patch_size": 4})")),
                          ranks);
  }
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
