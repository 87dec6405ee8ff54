#include "stages/ranks/gradient_sum.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/ranks/messages.h"
#include "stages/ranks/rank_group.h"
#include "tests/support/by_ranks.h"
#include "tests/support/gradients.h"
#include "tests/support/pairs.h"

namespace stages {
namespace {

TEST(GradientSum, AddsTheGradientsOfAllRanks) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    std::vector<at::Tensor> parameters;
    for (const std::int64_t size : {2, 3, 4})
      parameters.push_back(torch::zeros({size, 2}, torch::kDouble).requires_grad_());
    parameters[0].mutable_grad() = torch::full({2, 2}, own.rank, torch::kDouble);
    if (own.rank == 1) parameters[1].mutable_grad() = torch::ones({3, 2}, torch::kDouble);
    GradientSum(own).over_ranks(parameters, /*meets=*/false, [] { return GradientSum::OwnPart(); });
    EXPECT_TRUE(parameters[0].grad().equal(torch::full({2, 2}, 3, torch::kDouble)));
    EXPECT_TRUE(parameters[1].grad().equal(torch::ones({3, 2}, torch::kDouble)))
        << "one rank has it";
    EXPECT_FALSE(parameters[2].grad().defined()) << "none has it";
  });
}

TEST(GradientSum, AcceptsLargeTensorsAndSeveralTypes) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const std::int64_t large = kMessageBytes / 4 + 1;
    std::vector<at::Tensor> parameters;
    for (const auto& [size, type] : {std::pair{large, torch::kFloat},
                                     {std::int64_t{7}, torch::kFloat},
                                     {std::int64_t{5}, torch::kDouble},
                                     {large, torch::kFloat}}) {
      parameters.push_back(torch::zeros({size}, type).requires_grad_());
      parameters.back().mutable_grad() = torch::full({size}, own.rank + 1, type);
    }
    parameters.push_back(torch::zeros({4, 3}, torch::kFloat).requires_grad_());
    parameters.back().mutable_grad() = torch::full({3, 4}, own.rank + 1, torch::kFloat).t();
    GradientSum(own).over_ranks(parameters, /*meets=*/false, [] { return GradientSum::OwnPart(); });
    for (const at::Tensor& parameter : parameters)
      EXPECT_TRUE(parameter.grad().eq(3).all().item<bool>()) << parameter.sizes();
  });
}

/// Sets the gradients of the parameters in `which` to 1.
void give_gradients(const std::vector<at::Tensor>& parameters, const std::vector<int>& which) {
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
  for (const int one : which) {
    const at::Tensor& parameter = parameters[static_cast<std::size_t>(one)];
    parameter.mutable_grad() = torch::ones_like(parameter).detach();
  }
}

TEST(GradientSum, GradientsMayBeMissingInSomeSteps) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    std::vector<at::Tensor> parameters;
    for (int i = 0; i < 3; ++i) parameters.push_back(torch::zeros({4}).requires_grad_());
    GradientSum sum(own);
    // For each step: which parameters have gradients on rank 0 and on rank 1.
    const std::vector<std::pair<std::vector<int>, std::vector<int>>> steps = {
        {{0, 1}, {0, 1}}, {{0, 1}, {0, 1}}, {{0}, {0, 1, 2}}, {{0, 1, 2}, {0, 1, 2}},
        {{2}, {2}},       {{}, {}},         {{}, {1}}};
    for (const auto& step : steps) {
      const auto& first = step.first;
      const auto& second = step.second;
      sum.over_ranks(parameters, /*meets=*/false, [&] {
        give_gradients(parameters, own.rank == 0 ? first : second);
        return GradientSum::OwnPart{torch::full({1}, own.rank, torch::kDouble)};
      });
      for (int i = 0; i < 3; ++i) {
        const auto ranks = std::ranges::count(first, i) + std::ranges::count(second, i);
        const at::Tensor& gradient = parameters[static_cast<std::size_t>(i)].grad();
        ASSERT_EQ(gradient.defined(), ranks > 0) << i;
        if (ranks > 0) EXPECT_TRUE(gradient.eq(static_cast<double>(ranks)).all().item<bool>()) << i;
      }
    }
  });
}

TEST(GradientSum, OutOfMemoryDoesNotAffectTheNextStep) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const std::vector<at::Tensor> parameters = {torch::zeros({4}).requires_grad_(),
                                                torch::zeros({4}).requires_grad_()};
    GradientSum sum(own);
    for (const bool runs_out : {true, false, true, false}) {
      at::Tensor numbers;
      const auto compute = [&] {
        TORCH_CHECK_WITH(OutOfMemoryError, !runs_out || own.rank == 0, "no room");
        give_gradients(parameters, {0, own.rank});
        numbers = torch::full({2}, own.rank + 1, torch::kDouble);
        return GradientSum::OwnPart{numbers};
      };
      if (runs_out) {
        EXPECT_THROW(sum.over_ranks(parameters, /*meets=*/false, compute), c10::OutOfMemoryError);
        continue;
      }
      sum.over_ranks(parameters, /*meets=*/false, compute);
      EXPECT_TRUE(parameters[0].grad().eq(2).all().item<bool>());
      EXPECT_TRUE(parameters[1].grad().eq(1).all().item<bool>());
      EXPECT_TRUE(numbers.eq(3).all().item<bool>());
    }
  });
}

TEST(Ranks, SumsOverSamplesMatchASingleRank) {
  for (const Drops drops : {Drops::kNothing, Drops::kAll}) {
    for (const std::int64_t micro_batch : {0, 2}) {
      expect_equal_to_one_rank(
          ten_samples(), {.micro_batch = micro_batch},
          [&] { return std::make_shared<DroppingNet>(drops); },
          [](DroppingNet&) { return DroppingStep(); });
    }
  }
}

TEST(Ranks, GroupsStayWhole) {
  for (const Drops drops : {Drops::kNothing, Drops::kAll}) {
    expect_equal_to_one_rank(
        four_groups(), {}, [&] { return std::make_shared<DroppingNet>(drops); },
        [](DroppingNet&) { return GroupStep(); });
  }
}

TEST(Ranks, ContrastiveLossUsesTheWholeBatch) {
  for (const Drops drops : {Drops::kNothing, Drops::kAll}) {
    for (const bool encodes_temperature : {false, true}) {
      for (const StepPlan& plan : {StepPlan{}, StepPlan{.micro_batch = 2, .two_pass = true}}) {
        expect_equal_to_one_rank(
            ten_pairs(), plan, [&] { return std::make_shared<DroppingNet>(drops, 6); },
            [&](DroppingNet& net) {
              ContrastiveStep step(net);
              step.encodes_temperature = encodes_temperature;
              return step;
            });
      }
    }
  }
}

}  // namespace
}  // namespace stages
