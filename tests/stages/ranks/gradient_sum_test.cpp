#include "stages/ranks/gradient_sum.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/ranks/rank_group.h"
#include "tests/support/by_ranks.h"
#include "tests/support/gradients.h"
#include "tests/support/pairs.h"

namespace stages {
namespace {

TEST(GradientSum, AddsWhatTheRanksHave) {
  run_as_ranks(3, [](const runner::RankOfRun& own) {
    std::vector<at::Tensor> parameters;
    for (const std::int64_t size : {2, 3, 4})
      parameters.push_back(torch::zeros({size, 2}, torch::kDouble).requires_grad_());
    parameters[0].mutable_grad() = torch::full({2, 2}, own.rank, torch::kDouble);
    if (own.rank == 1) parameters[1].mutable_grad() = torch::ones({3, 2}, torch::kDouble);
    sum_gradients(parameters, own);
    EXPECT_TRUE(parameters[0].grad().equal(torch::full({2, 2}, 3, torch::kDouble)));
    EXPECT_TRUE(parameters[1].grad().equal(torch::ones({3, 2}, torch::kDouble)))
        << "one rank has it";
    EXPECT_FALSE(parameters[2].grad().defined()) << "none has it";
  });
}

TEST(GradientSum, TensorsLargerThanABucketAndOfOtherTypes) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const std::int64_t large = kBucketBytes / 4 + 1;
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
    sum_gradients(parameters, own);
    for (const at::Tensor& parameter : parameters)
      EXPECT_TRUE(parameter.grad().eq(3).all().item<bool>()) << parameter.sizes();
  });
}

TEST(Ranks, SumsOverSamplesAreThoseOfOneRank) {
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

TEST(Ranks, AContrastiveLossSeesTheWholeBatch) {
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
