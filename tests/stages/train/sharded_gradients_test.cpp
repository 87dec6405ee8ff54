#include "stages/train/sharded_gradients.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/ranks/messages.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/gradient_histogram.h"
#include "tests/support/by_ranks.h"

namespace stages {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr std::int64_t kSmallBucket = 64;

/// A scalar, a weight larger than a bucket, and others, of two types.
std::vector<at::Tensor> several_parameters() {
  std::vector<at::Tensor> all;
  const auto add = [&](std::vector<std::int64_t> shape, at::ScalarType type) {
    all.push_back(torch::ones(shape, type).requires_grad_());
  };
  add({}, torch::kDouble);
  add({7, 3}, torch::kDouble);
  add({2}, torch::kFloat);
  add({3}, torch::kDouble);
  add({4, 2, 3}, torch::kFloat);
  return all;
}

/// Returns the sum of all elements of these parameters, each times `factor`.
at::Tensor sum_of(const std::vector<at::Tensor>& parameters, const std::vector<std::size_t>& which,
                  double factor) {
  at::Tensor sum = torch::zeros({}, torch::kDouble);
  for (const std::size_t one : which) sum = sum + factor * parameters[one].sum().to(torch::kDouble);
  return sum;
}

/// Runs one step of a rank; `compute` is called for each part.
template <typename Compute>
std::vector<bool> one_step(ShardedGradients& gradients, const runner::RankOfRun& own, int parts,
                           Compute compute) {
  std::vector<bool> present;
  together(own, [&] {
    gradients.begin();
    for (int part = 0; part < parts; ++part) {
      ShardedGradients::Part sending(gradients);
      compute(part);
      sending.end();
    }
    present = gradients.finish();
  });
  return present;
}

/// Expects the gradients `expected` only on their owners; 0: none on any rank.
void expect_on_owners(const std::vector<at::Tensor>& parameters, const StateShard& shard,
                      const std::vector<double>& expected) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = parameters[i].grad();
    ASSERT_EQ(gradient.defined(), expected[i] != 0 && shard.keeps(i)) << i;
    if (gradient.defined()) EXPECT_TRUE(gradient.eq(expected[i]).all().item<bool>()) << gradient;
  }
}

TEST(ShardedGradients, EachOwnerHasTheSumOverPartsAndRanks) {
  for (const std::int64_t bucket : {std::int64_t{1}, kSmallBucket, kMessageBytes}) {
    run_as_ranks(3, [bucket](const runner::RankOfRun& own) {
      const std::vector<at::Tensor> parameters = several_parameters();
      const StateShard shard = shard_of(parameters, own.rank, own.size);
      ShardedGradients gradients(parameters, shard, own, bucket);
      for (int step = 0; step < 2; ++step) {
        const std::vector<bool> present = one_step(gradients, own, 2, [&](int part) {
          sum_of(parameters, {0, 1, 2, 3, 4}, own.rank + 10 * part).backward();
        });
        EXPECT_THAT(present, Each(true));
        expect_on_owners(parameters, shard, {36, 36, 36, 36, 36});  // 0 + 1 + 2 + 10 + 11 + 12
        for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
      }
    });
  }
}

TEST(ShardedGradients, ParametersMayBeUsedBySomeRanksOnly) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const std::vector<at::Tensor> parameters = several_parameters();
    const StateShard shard = shard_of(parameters, own.rank, own.size);
    ShardedGradients gradients(parameters, shard, own, kSmallBucket);
    parameters[3].requires_grad_(false);
    const std::vector<bool> present = one_step(gradients, own, 2, [&](int part) {
      if (own.rank == 0) sum_of(parameters, {0, 1}, 1).backward();
      else if (part == 1) sum_of(parameters, {1, 4}, 2).backward();
    });
    EXPECT_THAT(present, ElementsAre(true, true, false, false, true));
    expect_on_owners(parameters, shard, {2, 4, 0, 0, 2});
  });
}

TEST(ShardedGradients, GradientsComputedInSeveralPiecesAreAdded) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const std::vector<at::Tensor> parameters = several_parameters();
    const StateShard shard = shard_of(parameters, own.rank, own.size);
    ShardedGradients gradients(parameters, shard, own, kSmallBucket);
    one_step(gradients, own, 2, [&](int) {
      sum_of(parameters, {0, 1, 2, 3, 4}, 1).backward();
      if (own.rank == 1) sum_of(parameters, {0, 1, 4}, 5).backward();
    });
    expect_on_owners(parameters, shard, {14, 14, 4, 4, 14});
  });
}

TEST(ShardedGradients, ExistingGradientsAreAdded) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const std::vector<at::Tensor> parameters = several_parameters();
    const StateShard shard = shard_of(parameters, own.rank, own.size);
    ShardedGradients gradients(parameters, shard, own, kSmallBucket);
    if (own.rank == 0) sum_of(parameters, {0, 4}, 3).backward();
    const std::vector<bool> present = one_step(gradients, own, 1, [&](int) {
      sum_of(parameters, {1, 4}, 1).backward();
    });
    EXPECT_THAT(present, ElementsAre(true, true, false, false, true));
    expect_on_owners(parameters, shard, {3, 2, 0, 0, 5});
  });
}

TEST(ShardedGradients, FewGradientsExistAtOnce) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    std::vector<at::Tensor> parameters;
    for (int i = 0; i < 12; ++i) parameters.push_back(torch::ones({8}).requires_grad_());
    const StateShard shard = shard_of(parameters, own.rank, own.size);
    ShardedGradients gradients(parameters, shard, own, /*bucket_bytes=*/32);
    std::int64_t most = 0;
    one_step(gradients, own, 1, [&](int) {
      // The backward pass of this chain computes the gradients one after another.
      at::Tensor x = torch::ones({8});
      for (const at::Tensor& parameter : parameters) {
        x = x * parameter;
        x.register_hook([&](const at::Tensor&) {
          most = std::max(most, std::ranges::count_if(parameters, [](const at::Tensor& one) {
                            return one.grad().defined();
                          }));
        });
      }
      x.sum().backward();
    });
    EXPECT_GT(most, 0);
    EXPECT_LE(most, 6 + 1) << "a half, which the rank owns, and the latest";
  });
}

TEST(ShardedGradients, OutOfMemoryOnOneRankDoesNotAffectTheNextStep) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const std::vector<at::Tensor> parameters = several_parameters();
    const StateShard shard = shard_of(parameters, own.rank, own.size);
    ShardedGradients gradients(parameters, shard, own, kSmallBucket);
    for (const int failing : {0, 1, 2, 1}) {  // 2: neither
      const auto step = [&] {
        one_step(gradients, own, 2, [&](int part) {
          at::Tensor sum = sum_of(parameters, {0, 1}, 1);
          sum.register_hook([&](const at::Tensor&) {
            TORCH_CHECK_WITH(OutOfMemoryError, part == 0 || own.rank != failing, "no room");
          });
          (sum + sum_of(parameters, {2, 3, 4}, 1)).backward();
        });
      };
      if (failing < 2) {
        EXPECT_THROW(step(), c10::OutOfMemoryError) << failing;
      } else {
        step();
        expect_on_owners(parameters, shard, {4, 4, 4, 4, 4});
      }
      for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    }
    sum_of(parameters, {0}, 1).backward();
    EXPECT_TRUE(parameters[0].grad().defined()) << "outside a part, nothing is sent";
  });
}

TEST(ShardedGradients, HistogramsCoverAllRanks) {
  run_as_ranks(2, [](const runner::RankOfRun& own) {
    const std::vector<at::Tensor> all = several_parameters();
    NamedTensors named;
    for (std::size_t i = 0; i < all.size(); ++i) named.set(std::to_string(i), all[i]);
    ShardedGradients gradients(all, shard_of(all, own.rank, own.size), own, kSmallBucket);
    const std::vector<bool> present = one_step(gradients, own, 1, [&](int) {
      sum_of(all, {0, 1, 4}, 0.5).backward();
    });
    const auto counts = [&](const std::vector<bool>& of) {
      at::Tensor found;
      together(own, [&] {
        const GradientHistograms histograms(named, of, [&](const at::Tensor& counts) {
          group_of(own)->sum_in_work(counts);
          found = counts;
        });
      });
      return found;
    };
    const at::Tensor of_all = counts(present);
    ASSERT_EQ(of_all.sizes(), (std::vector<std::int64_t>{3, kHistogramBuckets}));
    EXPECT_TRUE(of_all.sum(1).equal(torch::tensor({1, 21, 24}, torch::kLong))) << of_all.sum(1);
  });
}

}  // namespace
}  // namespace stages
