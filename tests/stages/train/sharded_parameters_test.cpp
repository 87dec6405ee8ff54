#include "stages/train/sharded_parameters.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/attached_lora.h"
#include "stages/numerics/activation_checkpointing.h"
#include "stages/ranks/rank_group.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/train/certify.h"
#include "stages/train/step_execution.h"
#include "stages/weights/weights.h"
#include "tests/support/by_ranks.h"
#include "tests/support/distance.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_step.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

/// Cross-entropy of an ImageClassifier, which may run out of memory between two blocks.
class ShardedTowerStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    TORCH_CHECK_WITH(OutOfMemoryError, !has_no_room, "no room");
    return dynamic_cast<ImageClassifier&>(network).forward(part["image"]);
  }
  bool has_no_room = false;
};

/// Five samples: two ranks get different numbers of them.
Batch five_images() {
  return Batch(
      {{"image", torch::randn({5, 3, 8, 8}, at::detail::createCPUGenerator(9), torch::kDouble)},
       {"label", torch::arange(5) % 3}},
      5);
}

/// The gradients of key biases are nothing but rounding, which Adam would amplify.
constexpr SgdOptions kMomentum{.learning_rate = 0.1, .momentum = 0.9};

using Prepare = std::function<void(ImageClassifier&)>;

void leave_as_it_is(ImageClassifier&) {}

void freeze_first_block(ImageClassifier& network) {
  for (const auto& [name, weight] : trained_parameters(network)) {
    if (name.find("layers.0.") != name.npos) at::Tensor(weight).requires_grad_(false);
  }
}

void add_lora(ImageClassifier& network) {
  LoraOptions lora{.rank = 2, .alpha = 4};
  lora.targets = std::vector<std::string>{"q_proj", "fc1"};
  attach_lora(network, lora, clip_names, 5);
  network.to(torch::kDouble);
  const torch::NoGradGuard no_graph;
  for (const auto& [name, weight] : trained_parameters(network))
    at::Tensor(weight).normal_(0, 0.2, at::detail::createCPUGenerator(77));
}

StepPlan plan_with(Sharding sharding, std::int64_t micro_batch = 0, bool two_pass = false) {
  return {.micro_batch = micro_batch,
          .two_pass = two_pass,
          .activation_checkpointing = {.blocks = true},
          .sharding = sharding};
}

/// What a rank has after three steps.
struct ShardedResult {
  at::Tensor weights;
  at::Tensor averages;  // that this rank keeps
};

ShardedResult trained_tower(const StepPlan& plan, const Prepare& prepare,
                            const runner::RankOfRun& own) {
  const auto network = tiny_tower();
  prepare(*network);
  network->train();
  const ShardedTowerStep step;
  StepExecution execution(
      step, *network,
      {{.name = "", .optimizer = kMomentum, .parameters = trained_parameters(*network)}}, plan,
      {.norm = 0.5}, at::kCPU, WeightAverageOptions{.decay = 0.5}, own);
  execution.divide_parameters();
  for (const std::int64_t number : {1, 2, 3})
    execution.commit(execution.compute(five_images(), {7, number}));
  execution.join_parameters();
  ShardedResult result{.weights = in_a_row(network->parameters()), .averages = {}};
  std::vector<at::Tensor> averages;
  for (const auto& [name, average] : execution.average()->state()) {
    if (has_memory(average)) averages.push_back(average);
  }
  result.averages = in_a_row(averages);
  return result;
}

std::vector<at::Tensor> weights_of_ranks(int size, const StepPlan& plan, const Prepare& prepare) {
  std::vector<at::Tensor> all(static_cast<std::size_t>(size));
  run_as_ranks(size, [&](const runner::RankOfRun& own) {
    all[static_cast<std::size_t>(own.rank)] = trained_tower(plan, prepare, own).weights;
  });
  return all;
}

void expect_trained_like_one(int size, const StepPlan& plan, const Prepare& prepare) {
  const at::Tensor one = trained_tower({}, prepare, {}).weights;
  const std::vector<at::Tensor> all = weights_of_ranks(size, plan, prepare);
  for (const at::Tensor& weights : all) {
    EXPECT_LT(distance(weights, one), 1e-12);
    EXPECT_TRUE(weights.equal(all.front())) << "all ranks have the same weights";
  }
}

TEST(ShardedParameters, RanksTrainLikeOneRank) {
  for (const Prepare& prepare :
       {Prepare(leave_as_it_is), Prepare(freeze_first_block), Prepare(add_lora)})
    expect_trained_like_one(2, plan_with(Sharding::kParameters), prepare);
}

TEST(ShardedParameters, RanksMayHaveDifferentNumbersOfMicroBatches) {
  for (const bool two_pass : {false, true})
    expect_trained_like_one(3, plan_with(Sharding::kParameters, 1, two_pass), leave_as_it_is);
}

TEST(ShardedParameters, GiveTheSameBitsEveryTime) {
  const StepPlan plan = plan_with(Sharding::kParameters, /*micro_batch=*/1);
  EXPECT_TRUE(weights_of_ranks(2, plan, leave_as_it_is)
                  .front()
                  .equal(weights_of_ranks(2, plan, leave_as_it_is).front()));
}

/// The names of the parameters that have memory, and the bytes of those in blocks.
struct KeptParameters {
  std::vector<std::string> names = {};
  std::int64_t in_blocks = 0;
};

bool is_in_block(const std::string& name) { return name.find(".layers.") != name.npos; }

KeptParameters kept_parameters(const torch::nn::Module& network) {
  KeptParameters kept;
  for (const auto& item : network.named_parameters()) {
    if (!has_memory(item.value())) continue;
    kept.names.push_back(item.key());
    if (is_in_block(item.key())) kept.in_blocks += static_cast<std::int64_t>(item.value().nbytes());
  }
  return kept;
}

TEST(ShardedParameters, EachParameterIsKeptOnlyByItsOwner) {
  constexpr int kRanks = 3;
  std::vector<KeptParameters> kept(kRanks);
  const auto whole = tiny_tower();
  freeze_first_block(*whole);
  run_as_ranks(kRanks, [&](const runner::RankOfRun& own) {
    const auto network = tiny_tower();
    freeze_first_block(*network);
    std::vector<at::Tensor> trained;
    for (const auto& [name, weight] : trained_parameters(*network)) trained.push_back(weight);
    const StateShard shard = shard_of_blocks(*network, trained, own.rank, own.size);
    ShardedParameters parameters(*network, trained, shard, own);
    kept[static_cast<std::size_t>(own.rank)] = kept_parameters(*network);
    for (const auto& item : network->named_parameters()) {
      const auto owner = parameters.owner_of(item.key());
      EXPECT_EQ(owner.has_value(), is_in_block(item.key())) << item.key();
      EXPECT_EQ(parameters.keeps_apart(item.value()), owner.has_value()) << item.key();
      EXPECT_EQ(has_memory(item.value()), owner.value_or(own.rank) == own.rank) << item.key();
    }
    for (std::size_t i = 0; i < trained.size(); ++i)
      EXPECT_EQ(has_memory(trained[i]) || !shard.keeps(i), true) << "the owner updates it";
    parameters.join();
    EXPECT_TRUE(in_a_row(network->parameters()).equal(in_a_row(whole->parameters())));
  });
  std::map<std::string, int> keepers;
  for (const KeptParameters& one : kept) {
    EXPECT_LE(one.in_blocks, kept.front().in_blocks) << "the first rank has the most";
    for (const std::string& name : one.names) ++keepers[name];
  }
  EXPECT_EQ(keepers.size(), whole->parameters().size());
  for (const auto& [name, count] : keepers)
    EXPECT_EQ(count, is_in_block(name) ? 1 : kRanks) << name;
}

TEST(ShardedParameters, BlocksHoldTheirValuesOnlyWhileTheyRun) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const auto network = tiny_tower();
    const ShardedTowerStep step;
    StepExecution execution(
        step, *network,
        {{.name = "", .optimizer = kMomentum, .parameters = trained_parameters(*network)}},
        plan_with(Sharding::kParameters), {}, at::kCPU, {}, own);
    execution.divide_parameters();
    const std::vector<std::string> before = kept_parameters(*network).names;
    EXPECT_LT(before.size(), network->parameters().size());
    for (const std::int64_t number : {1, 2}) {
      execution.commit(execution.compute(five_images(), {7, number}));
      EXPECT_EQ(kept_parameters(*network).names, before) << number;
    }
    // A graph must not keep sharded weights.
    EXPECT_THROW(step.encode(*network, five_images()), std::logic_error);
  });
}

TEST(ShardedParameters, RanksMayRunBlocksDifferentNumbersOfTimes) {
  const auto whole = tiny_tower();
  const ShardedTowerStep step;
  const torch::NoGradGuard not_here;
  const at::Tensor expected = step.encode(*whole, five_images()).at("logits");
  run_as_ranks(3, [&](const runner::RankOfRun& own) {
    const torch::NoGradGuard no_graph;
    const auto network = tiny_tower();
    const std::vector<at::Tensor> trained = network->parameters();
    ShardedParameters parameters(*network, trained,
                                 shard_of_blocks(*network, trained, own.rank, own.size), own);
    for (int i = 0; i < 2 * own.rank; ++i)
      EXPECT_TRUE(step.encode(*network, five_images()).at("logits").equal(expected));
    group_of(own)->answer_rest();
    EXPECT_TRUE(step.encode(*network, five_images()).at("logits").equal(expected)) << "all at once";
    group_of(own)->answer_rest();
  });
}

TEST(ShardedParameters, OutOfMemoryOnOneRankDoesNotAffectTheNextStep) {
  const std::vector<at::Tensor> expected =
      weights_of_ranks(2, plan_with(Sharding::kParameters), leave_as_it_is);
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    const auto network = tiny_tower();
    network->train();
    ShardedTowerStep step;
    StepExecution execution(
        step, *network,
        {{.name = "", .optimizer = kMomentum, .parameters = trained_parameters(*network)}},
        plan_with(Sharding::kParameters), {.norm = 0.5}, at::kCPU, {}, own);
    execution.divide_parameters();
    for (const std::int64_t number : {1, 2, 3}) {
      step.has_no_room = own.rank == number % 2;
      EXPECT_THROW(execution.compute(five_images(), {7, number}), c10::OutOfMemoryError);
      network->zero_grad();
      step.has_no_room = false;
      execution.commit(execution.compute(five_images(), {7, number}));
    }
    execution.join_parameters();
    EXPECT_TRUE(in_a_row(network->parameters()).equal(expected.front()));
  });
}

TEST(ShardedParameters, OwnersKeepTheAverages) {
  const at::Tensor expected = trained_tower({}, leave_as_it_is, {}).averages;
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    const auto network = tiny_tower();
    network->train();
    const ShardedTowerStep step;
    StepExecution execution(
        step, *network,
        {{.name = "", .optimizer = kMomentum, .parameters = trained_parameters(*network)}},
        plan_with(Sharding::kParameters), {.norm = 0.5}, at::kCPU,
        WeightAverageOptions{.decay = 0.5}, own);
    execution.divide_parameters();
    for (const std::int64_t number : {1, 2, 3})
      execution.commit(execution.compute(five_images(), {7, number}));
    std::size_t missing = 0;
    for (const auto& [name, average] : execution.average()->state()) {
      const auto owner = execution.owner_of_weight(name);
      EXPECT_EQ(has_memory(average), owner.value_or(own.rank) == own.rank) << name;
      missing += has_memory(average) ? 0 : 1;
    }
    EXPECT_GT(missing, 0U);
    execution.average()->swap();
    execution.join_parameters();
    std::vector<at::Tensor> averages;
    for (const auto& [name, weight] : weights(*network)) averages.push_back(weight);
    EXPECT_LT(distance(in_a_row(averages), expected), 1e-12);
  });
}

TEST(ShardedParameters, RanksKeepTheAveragesOfOneRank) {
  const at::Tensor expected = trained_tower({}, leave_as_it_is, {}).averages;
  for (const int size : {2, 3, 4}) {
    run_as_ranks(size, [&](const runner::RankOfRun& own) {
      const at::Tensor averages =
          trained_tower(plan_with(Sharding::kNone), leave_as_it_is, own).averages;
      EXPECT_LT(distance(averages, expected), 1e-12) << size;
    });
  }
}

TEST(ShardedParameters, CertificateHolds) {
  const auto network = tiny_tower();
  for (const std::int64_t micro_batch : {0, 1}) {
    const std::vector<std::shared_ptr<torch::nn::Module>> of_ranks = {tiny_tower(), tiny_tower(),
                                                                      tiny_tower()};
    const StepPlan plan = plan_with(Sharding::kParameters, micro_batch);
    const runner::Certificate certificate =
        compare_gradients(ShardedTowerStep(), *network, five_images(), plan, 7, of_ranks);
    EXPECT_TRUE(certificate.holds()) << certificate.worst();
    EXPECT_THAT(certificate.compared, testing::HasSubstr("shard parameters"));
    for (const auto& one : of_ranks) {
      for (const at::Tensor& weight : one->parameters()) EXPECT_TRUE(has_memory(weight));
    }
  }
}

TEST(ShardedParameters, PlanNeedsRecomputedBlocks) {
  MemoryPolicy policy;
  policy.pointer = "/memory";
  policy.sharding = Sharding::kParameters;
  const ShardedTowerStep step;
  const auto plan = [&](ActivationCheckpointing recomputed, int ranks) {
    return make_step_plan(step, policy, 5, {}, std::move(recomputed), /*declares_cut=*/false,
                          ranks);
  };
  EXPECT_REFUSED(plan({}, 2), kOptionConflict, "/memory/shard", "activation_checkpointing: block");
  EXPECT_REFUSED(plan({.modules = {"layers.0"}}, 2), kOptionConflict, "/memory/shard", "shard");
  EXPECT_EQ(plan({.blocks = true}, 2).sharding, Sharding::kParameters);
  EXPECT_EQ(plan({}, 1).sharding, Sharding::kNone) << "there is only one rank";
}

}  // namespace
}  // namespace stages
