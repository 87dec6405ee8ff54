// Checks sharded networks on a GPU: each rank has only its own weights.

#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/ranks/rank_group.h"
#include "stages/stages.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/train/sharded_network.h"
#include "stages/train/sharded_parameters.h"
#include "tests/support/model_of.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/small_backbone.h"

namespace stages {
namespace {

TEST(GpuShardedNetwork, PartsMoveToTheGpuAndRunLikeTheWhole) {
  NEEDS_GPU();
  const auto model = model_of(kModelClipVision, Json::parse(R"({"hidden_size": 8,
      "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
      "patch_size": 4})"));
  MemoryPolicy policy;
  policy.sharding = Sharding::kParameters;
  const torch::NoGradGuard no_graph;
  const auto whole = model->build(flowers(), /*seed=*/3);
  whole->to(kGpu);
  const NamedTensors inputs = {{"image", pixels().to(kGpu)}};
  const at::Tensor expected = model->forward(*whole, inputs).at("logits");
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    const torch::NoGradGuard no_graph_in_rank;
    group_of(own)->use_gpu(kGpu);
    const auto part = built_for_rank(*model, flowers(), TrainerOptions(), policy, own,
                                     [&] { return model->build(flowers(), /*seed=*/3); });
    std::vector<bool> had_memory;
    for (const at::Tensor& weight : part->parameters()) had_memory.push_back(has_memory(weight));
    move_network(*part, kGpu);
    const std::vector<at::Tensor> trained = part->parameters();
    for (std::size_t i = 0; i < trained.size(); ++i) {
      EXPECT_EQ(trained[i].device(), kGpu) << i;
      EXPECT_EQ(has_memory(trained[i]), had_memory[i]) << i;
      EXPECT_TRUE(trained[i].requires_grad()) << i;
    }
    ShardedParameters parameters(*part, trained,
                                 shard_of_blocks(*part, trained, own.rank, own.size), own);
    EXPECT_TRUE(model->forward(*part, inputs).at("logits").equal(expected)) << own.rank;
    group_of(own)->answer_rest();
  });
}

}  // namespace
}  // namespace stages
