#pragma once

#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/ranks/gradient_sum.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/gradient.h"
#include "stages/train/step_execution.h"
#include "tests/support/distance.h"

/// What a rank has after one step.
struct ComputedByRank {
  at::Tensor gradient;  ///< of all parameters, in a row
  at::Tensor buffers;   ///< all numbers, in a row
  stages::Means means;
};

inline at::Tensor in_a_row(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all = {torch::zeros({0}, torch::kDouble)};
  for (const at::Tensor& one : tensors) all.push_back(one.detach().to(torch::kDouble).flatten());
  return torch::cat(all);
}

/// What each of `size` ranks has after one step on `batch`.
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
    stages::StepNumbers numbers = stages::accumulate_over_ranks(
        sum, net.parameters(), step, plan, [] {},
        [&] {
          return stages::accumulate_gradient(step, {net, plan.numerics, at::kCPU}, batch,
                                             step.weight(batch), plan, {7, 1}, {}, {}, {}, own);
        });
    numbers.fetch();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : net.parameters()) gradients.push_back(parameter.grad());
    all[index] = {in_a_row(gradients), in_a_row(net.buffers()), numbers.means()};
  });
  return all;
}

/// 2, 3 and 12 ranks compute under `plan` what one computes of the whole batch, in float64, and
/// the same bits every time. Gradients and buffers may differ by `limit` of their size.
template <typename MakeNet, typename MakeStep>
void expect_equal_to_one_rank(const stages::Batch& batch, const stages::StepPlan& plan,
                              MakeNet make_net, MakeStep make_step, double limit = 1e-12) {
  const ComputedByRank whole = by_ranks(1, batch, {}, make_net, make_step).front();
  for (const int size : {2, 3, 12}) {
    const auto all = by_ranks(size, batch, plan, make_net, make_step);
    for (const ComputedByRank& one : all) {
      EXPECT_LT(distance(one.gradient, whole.gradient), limit) << size << " " << plan.micro_batch;
      EXPECT_TRUE(one.gradient.equal(all.front().gradient)) << "the ranks stay alike";
      if (whole.buffers.numel() > 0) EXPECT_LT(distance(one.buffers, whole.buffers), limit) << size;
      EXPECT_TRUE(one.buffers.equal(all.front().buffers)) << "the ranks stay alike";
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
