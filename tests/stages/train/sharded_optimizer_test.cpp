// Tests of an optimizer with its state sharded across ranks.

#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/ranks/rank_group.h"
#include "stages/train/optimizer.h"
#include "stages/train/step_execution.h"
#include "stages/weights/weights.h"
#include "tests/support/distance.h"
#include "tests/support/gradients.h"
#include "tests/support/many_parameters.h"
#include "tests/support/optimizer_rules.h"

namespace stages {
namespace {

/// Ranks in one process: after each step, every rank receives the parameters that others update.
class DividedOptimizer {
 public:
  DividedOptimizer(const OptimizerOptions& rule, int ranks) {
    const ManyParameters one(rule, Way::kOnDevice);
    std::vector<std::int64_t> bytes;
    for (const at::Tensor& parameter : one.all)
      bytes.push_back(static_cast<std::int64_t>(parameter.nbytes()));
    owners_ = owners_of(bytes, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<ManyParameters>(
          rule, Way::kOnDevice, StateShard{.rank = rank, .owners = owners_}));
    }
  }

  void run(std::int64_t from, std::int64_t to) {
    const torch::NoGradGuard no_graph;
    for (std::int64_t step = from; step < to; ++step) {
      for (const auto& rank : ranks_) rank->run(step, step + 1);
      for (std::size_t i = 0; i < owners_.size(); ++i) {
        for (const auto& rank : ranks_) rank->all[i].copy_(owner_of(i).all[i]);
      }
    }
  }

  const ManyParameters& operator[](std::size_t rank) const { return *ranks_[rank]; }
  std::size_t size() const { return ranks_.size(); }

  /// Loads on each rank what it reads from a checkpoint: its own state, and outlines of the rest.
  void continue_as(const ManyParameters& other, const NamedTensors& state) {
    const torch::NoGradGuard no_graph;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ManyParameters& own = *ranks_[rank];
      for (std::size_t i = 0; i < own.all.size(); ++i) own.all[i].copy_(other.all[i]);
      NamedTensors read;
      for (const auto& [name, tensor] : state) {
        const bool is_kept = own.optimizer.keeper_of(name) == static_cast<int>(rank);
        read.set(name, is_kept ? tensor : tensor.to(at::kMeta));
      }
      own.optimizer.load_state(read);
    }
  }

  /// Returns the state of all ranks combined.
  std::map<std::string, at::Tensor> state() const {
    std::map<std::string, at::Tensor> all;
    for (const auto& rank : ranks_) {
      for (const auto& [name, tensor] : rank->optimizer.state())
        EXPECT_TRUE(all.emplace(name, tensor).second) << name << " is kept twice";
    }
    return all;
  }

 private:
  const ManyParameters& owner_of(std::size_t parameter) const {
    return *ranks_[static_cast<std::size_t>(owners_[parameter])];
  }

  std::vector<int> owners_;
  std::vector<std::unique_ptr<ManyParameters>> ranks_;
};

void expect_as_one(const DividedOptimizer& all, const ManyParameters& one,
                   const std::string& what) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (std::size_t i = 0; i < one.all.size(); ++i)
      EXPECT_TRUE(all[rank].all[i].equal(one.all[i])) << what << ", " << rank << ", " << i;
  }
  const auto state = all.state();
  ASSERT_EQ(state.size(), one.optimizer.state().size()) << what;
  for (const auto& [name, tensor] : one.optimizer.state())
    EXPECT_TRUE(state.at(name).equal(tensor)) << what << ", " << name;
}

TEST(ShardedOptimizer, EveryRuleGivesTheSameBits) {
  for (std::size_t rule = 0; rule < std::size(kEveryRule); ++rule) {
    ManyParameters one(kEveryRule[rule], Way::kOnDevice);
    one.run(0, 9);
    for (const int ranks : {2, 3, 12}) {
      DividedOptimizer all(kEveryRule[rule], ranks);
      all.run(0, 9);
      expect_as_one(all, one, "rule " + std::to_string(rule) + ", " + std::to_string(ranks));
    }
  }
}

TEST(ShardedOptimizer, KnowsTheStateOfOtherRanks) {
  for (std::size_t rule = 0; rule < std::size(kEveryRule); ++rule) {
    DividedOptimizer all(kEveryRule[rule], 3);
    for (const std::int64_t step : {0, 1, 4, 5}) {  // step 4 is skipped
      all.run(step, step + 1);
      const auto state = all.state();
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const Optimizer& optimizer = all[rank].optimizer;
        std::size_t others = 0;
        for (const auto& [name, outline] : optimizer.state_elsewhere()) {
          ASSERT_TRUE(state.contains(name)) << name;
          EXPECT_TRUE(outline.is_meta());
          EXPECT_EQ(outline.sizes(), state.at(name).sizes()) << name;
          EXPECT_EQ(outline.scalar_type(), state.at(name).scalar_type()) << name;
          EXPECT_NE(optimizer.keeper_of(name), static_cast<int>(rank)) << name;
          ++others;
        }
        for (const auto& [name, tensor] : optimizer.state())
          EXPECT_EQ(optimizer.keeper_of(name), static_cast<int>(rank)) << name;
        EXPECT_EQ(others + optimizer.state().size(), state.size()) << rule << ", " << step;
      }
    }
  }
}

TEST(ShardedOptimizer, UnknownStateNamesHaveNoOwner) {
  const DividedOptimizer all(adamw(0.1), 2);
  for (const char* const name : {"matrix", "matrix.momentum", "other.mean", "matrix.average", ""})
    EXPECT_EQ(all[0].optimizer.keeper_of(name), std::nullopt) << name;
  EXPECT_EQ(ManyParameters(adamw(0.1), Way::kOnDevice).optimizer.keeper_of("matrix.mean"), 0);
}

TEST(ShardedOptimizer, ContinuesOnAnyNumberOfRanks) {
  for (std::size_t rule = 0; rule < std::size(kEveryRule); ++rule) {
    ManyParameters whole(kEveryRule[rule], Way::kOnDevice);
    whole.run(0, 9);
    DividedOptimizer first(kEveryRule[rule], 3);
    first.run(0, 5);
    NamedTensors saved;
    for (const auto& [name, tensor] : first.state()) saved.set(name, tensor);
    for (const int ranks : {2, 3, 12}) {
      DividedOptimizer rest(kEveryRule[rule], ranks);
      rest.continue_as(first[0], saved);
      rest.run(5, 9);
      expect_as_one(rest, whole, "rule " + std::to_string(rule) + ", " + std::to_string(ranks));
    }
  }
}

TEST(ShardedOptimizer, StateOfTheWrongFormIsRejectedOnEveryRank) {
  for (const int rank : {0, 1}) {
    ManyParameters own(adamw(0.1), Way::kOnDevice,
                       StateShard{.rank = rank, .owners = {0, 0, 0, 0, 0, 0, 0}});
    NamedTensors state;
    for (const char* const part : {"mean", "square"})
      state.set(std::string("matrix.") + part, torch::zeros({17, 12}));
    state.set("matrix.age", torch::zeros({}));
    EXPECT_THROW(own.optimizer.load_state(state), std::invalid_argument) << rank;
  }
}

/// Returns the weights of a network on each rank after three steps on `ranks` ranks, and ones in
/// the shapes of the optimizer's state on all ranks.
std::vector<NamedTensors> after_steps(const OptimizerOptions& rule, const StepPlan& plan, int ranks,
                                      const GradientClip& clip = {.norm = 0.5}) {
  std::vector<std::shared_ptr<DroppingNet>> nets;
  for (int rank = 0; rank < ranks; ++rank)
    nets.push_back(std::make_shared<DroppingNet>(Drops::kAll));
  const Batch batch = ten_samples();
  std::vector<NamedTensors> all(nets.size());
  run_as_ranks(ranks, [&](const runner::RankOfRun& own) {
    const auto index = static_cast<std::size_t>(own.rank);
    const DroppingStep step;
    StepExecution execution(
        step, *nets[index],
        {{.name = "", .optimizer = rule, .parameters = trained_parameters(*nets[index])}}, plan,
        clip, at::kCPU, WeightAverageOptions{.decay = 0.5}, own);
    for (const std::int64_t number : {1, 2, 3})
      execution.commit(execution.compute(batch, {7, number}));
    NamedTensors& left = all[index];
    for (const auto& [name, weight] : weights(*nets[index]))
      left.set(name, weight.detach().clone());
    for (const NamedTensors& state :
         {execution.optimizer().state(), execution.optimizer().state_elsewhere()}) {
      for (const auto& [name, part] : state) left.set(name, torch::ones(part.sizes()));
    }
    execution.average()->swap();
    for (const auto& [name, weight] : weights(*nets[index]))
      left.set(name + ".average", weight.detach().clone());
  });
  return all;
}

TEST(ShardedOptimizer, RanksExchangeUpdatedWeights) {
  for (const OptimizerOptions& rule : kEveryRule) {
    for (const int ranks : {2, 3}) {
      const NamedTensors expected = after_steps(rule, {}, ranks).front();
      for (const NamedTensors& one : after_steps(rule, {.sharding = Sharding::kOptimizer}, ranks)) {
        EXPECT_EQ(one.size(), expected.size()) << ranks;
        for (const auto& [name, weight] : one)
          EXPECT_TRUE(weight.equal(expected.at(name))) << name << ", " << ranks;
      }
    }
  }
}

TEST(ShardedOptimizer, ShardedGradientsGiveAllRanksTheSameWeights) {
  for (const OptimizerOptions& rule : kEveryRule) {
    for (const std::int64_t micro_batch : {0, 2}) {
      const StepPlan plan{.micro_batch = micro_batch, .sharding = Sharding::kGradients};
      const std::vector<NamedTensors> all = after_steps(rule, plan, 3);
      const std::size_t expected = after_steps(rule, {}, 1).front().size();
      for (const NamedTensors& one : all) {
        EXPECT_EQ(one.size(), expected) << micro_batch;
        for (const auto& [name, weight] : one)
          EXPECT_TRUE(weight.equal(all.front().at(name))) << name << ", " << micro_batch;
      }
    }
  }
}

/// Returns all weights concatenated.
at::Tensor joined(const NamedTensors& weights) {
  std::vector<at::Tensor> all;
  for (const auto& [name, weight] : weights) all.push_back(weight.flatten());
  return torch::cat(all);
}

TEST(ShardedOptimizer, ShardedGradientsMatchASingleRank) {
  // SGD is linear in the gradient, so another order of additions changes little in float64.
  const OptimizerOptions rule = SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
  const at::Tensor expected = joined(after_steps(rule, {}, 1).front());
  for (const auto& [ranks, micro_batch] : {std::pair(2, 0), {3, 2}, {12, 1}}) {
    const StepPlan plan{.micro_batch = micro_batch, .sharding = Sharding::kGradients};
    EXPECT_LT(distance(joined(after_steps(rule, plan, ranks).front()), expected), 1e-12) << ranks;
  }
}

TEST(ShardedOptimizer, LocalClippingLimitsTheSumOverRanks) {
  for (const GradientClip& clip :
       {GradientClip{.value = 1e-3},
        GradientClip{.adaptive = AdaptiveClip{.factor = 1e-3, .epsilon = 1e-3}}}) {
    const OptimizerOptions rule = SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
    const NamedTensors expected = after_steps(rule, {}, 2, clip).front(),
                       free = after_steps(rule, {}, 2, {}).front();
    bool differs = false;
    for (const NamedTensors& one : after_steps(rule, {.sharding = Sharding::kOptimizer}, 2, clip)) {
      for (const auto& [name, weight] : one) {
        EXPECT_TRUE(weight.equal(expected.at(name))) << name;
        differs |= !weight.equal(free.at(name));
      }
    }
    EXPECT_TRUE(differs);
  }
}

}  // namespace
}  // namespace stages
