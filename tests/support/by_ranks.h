#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/ranks/gradient_sum.h"
#include "stages/ranks/rank_group.h"
#include "stages/ranks/state_shard.h"
#include "stages/train/gradient.h"
#include "stages/train/sharded_gradients.h"
#include "stages/train/step_execution.h"
#include "tests/support/distance.h"
#include "tests/support/ignored_sigpipe.h"

/// The results of a rank after one step.
struct ComputedByRank {
  at::Tensor gradient;  ///< of all parameters, concatenated; gathered if sharded
  at::Tensor buffers;   ///< all numbers, concatenated
  stages::Means means;
};

inline at::Tensor in_a_row(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all = {torch::zeros({0}, torch::kDouble)};
  for (const at::Tensor& one : tensors) all.push_back(one.detach().to(torch::kDouble).flatten());
  return torch::cat(all);
}

/// The bytes in a bucket of gradients; 0: the default. With few ranks, small networks get many
/// buckets, and weights that are larger than a bucket.
inline std::int64_t bucket_bytes(int ranks) { return ranks <= 3 ? 64 : 0; }

/// Gives every rank all gradients; before the call, each gradient is on one rank.
inline void put_together(const std::vector<at::Tensor>& parameters,
                         stages::ShardedGradients& sharded, const runner::RankOfRun& own) {
  stages::RankGroup& group = *stages::group_of(own);
  std::vector<bool> present;
  group.together([&] { present = sharded.finish(); });
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    const bool has = parameter.grad().defined();
    EXPECT_EQ(group.largest(has ? 1 : 0), present[i] ? 1 : 0) << i;
    if (!present[i]) continue;
    const at::Tensor ranks = torch::full({1}, has ? 1 : 0, torch::kInt);
    group.sum(ranks);
    EXPECT_EQ(ranks.item<int>(), 1) << "one rank keeps it";
    if (!has) parameter.mutable_grad() = torch::zeros_like(parameter).detach();
    group.sum(parameter.grad());
  }
}

/// The results of each of `size` ranks after one step on `batch`.
template <typename MakeNet, typename MakeStep>
std::vector<ComputedByRank> by_ranks(int size, const stages::Batch& batch,
                                     const stages::StepPlan& plan, MakeNet make_net,
                                     MakeStep make_step) {
  using Net = typename decltype(make_net())::element_type;
  std::vector<std::shared_ptr<Net>> nets;
  for (int rank = 0; rank < size; ++rank) nets.push_back(make_net());
  std::vector<ComputedByRank> all(static_cast<std::size_t>(size));
  stages::run_as_ranks(size, [&](const runner::RankOfRun& own) {
    const auto index = static_cast<std::size_t>(own.rank);
    Net& net = *nets[index];
    const auto step = make_step(net);
    stages::GradientSum sum(own);
    std::vector<at::Tensor> parameters = net.parameters();
    std::optional<stages::ShardedGradients> sharded;
    if (plan.shards_gradients())
      sharded.emplace(parameters, stages::shard_of(parameters, own.rank, size), own,
                      bucket_bytes(size));
    stages::StepNumbers numbers =
        stages::accumulate_over_ranks(
            sum, sharded ? std::vector<at::Tensor>() : parameters, step, plan, [] {},
            [&] {
              return stages::accumulate_gradient(
                  step, {net, plan.numerics, at::kCPU}, batch, step.weight(batch), plan, {7, 1},
                  {.ranks = own, .sharded = sharded ? &*sharded : nullptr});
            })
            .numbers;
    numbers.fetch();
    if (sharded) put_together(parameters, *sharded, own);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    all[index] = {in_a_row(gradients), in_a_row(net.buffers()), numbers.means()};
  });
  return all;
}

/// Expects 2, 3 and, unless gradients are sharded, 12 ranks to compute under `plan` what one rank
/// computes from the whole batch, in float64, and to get the same bits every time. Gradients and
/// buffers may differ by `limit`, relative to their size.
template <typename MakeNet, typename MakeStep>
void expect_equal_to_one_rank_as_planned(const stages::Batch& batch, const stages::StepPlan& plan,
                                         MakeNet make_net, MakeStep make_step, double limit) {
  const ComputedByRank whole = by_ranks(1, batch, {}, make_net, make_step).front();
  for (const int size : {2, 3, 12}) {
    if (size > 3 && plan.shards_gradients()) continue;  // takes half a minute
    const auto all = by_ranks(size, batch, plan, make_net, make_step);
    for (const ComputedByRank& one : all) {
      EXPECT_LT(distance(one.gradient, whole.gradient), limit) << size << " " << plan.micro_batch;
      EXPECT_TRUE(one.gradient.equal(all.front().gradient)) << "all ranks have the same weights";
      if (whole.buffers.numel() > 0) EXPECT_LT(distance(one.buffers, whole.buffers), limit) << size;
      EXPECT_TRUE(one.buffers.equal(all.front().buffers)) << "all ranks have the same weights";
      EXPECT_NEAR(one.means.loss, whole.means.loss, 1e-12 * std::abs(whole.means.loss));
      EXPECT_EQ(one.means.units, whole.means.units);
      for (std::size_t i = 0; i < whole.means.scores.size(); ++i)
        EXPECT_EQ(one.means.scores[i], whole.means.scores[i]);
    }
    if (size > 2) continue;
    const auto again = by_ranks(size, batch, plan, make_net, make_step);
    EXPECT_TRUE(again.front().gradient.equal(all.front().gradient)) << "the same bits every time";
  }
}

/// Calls expect_equal_to_one_rank_as_planned() with and without sharded gradients.
template <typename MakeNet, typename MakeStep>
void expect_equal_to_one_rank(const stages::Batch& batch, stages::StepPlan plan, MakeNet make_net,
                              MakeStep make_step, double limit = 1e-12) {
  for (const stages::Sharding sharding : {stages::Sharding::kNone, stages::Sharding::kGradients}) {
    SCOPED_TRACE(stages::name(sharding));
    plan.sharding = sharding;
    expect_equal_to_one_rank_as_planned(batch, plan, make_net, make_step, limit);
  }
}
