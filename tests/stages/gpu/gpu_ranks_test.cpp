// Checks that ranks on a GPU get the same results as ranks on a CPU.

#include <algorithm>
#include <functional>
#include <limits>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/device.h"
#include "stages/ranks/messages.h"
#include "stages/ranks/rank_group.h"
#include "stages/ranks/rank_statistics.h"
#include "tests/support/needs_gpu.h"

namespace stages {
namespace {

/// Calls `work` for each of `size` ranks, which share a GPU.
void run_on_gpu(int size, const std::function<void(RankGroup&, const runner::RankOfRun&)>& work) {
  run_as_ranks(size, [&](const runner::RankOfRun& own) {
    RankGroup& group = *group_of(own);
    group.use_gpu(kGpu);
    work(group, own);
  });
}

at::Tensor numbers_of(int rank, at::IntArrayRef shape, at::ScalarType type) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(17 + rank);
  return torch::randn(shape, generator, type);
}

TEST(GpuRanks, SumsMatchTheCpuBitForBit) {
  NEEDS_GPU();
  // The last size is larger than a message, and not a multiple of a message's size.
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{5}, kMessageBytes / 4 * 2 + 7}) {
    run_on_gpu(3, [&](RankGroup& group, const runner::RankOfRun& own) {
      at::Tensor here = numbers_of(own.rank, {size}, torch::kFloat);
      const at::Tensor there = here.to(kGpu);
      group.sum(there);
      // Sums the chunks in which the GPU's values are sent, since the order of additions depends on
      // the number of elements.
      for (std::int64_t begin = 0; begin < size; begin += kMessageBytes / 4)
        group.sum(here.narrow(0, begin, std::min(kMessageBytes / 4, size - begin)));
      EXPECT_TRUE(there.cpu().equal(here)) << size;
    });
  }
}

TEST(GpuRanks, BroadcastReachesAllRanks) {
  NEEDS_GPU();
  run_on_gpu(3, [](RankGroup& group, const runner::RankOfRun& own) {
    for (const auto& [type, size] : {std::pair{at::kFloat, kMessageBytes / 2},
                                     {at::kLong, std::int64_t{1}},
                                     {at::kBFloat16, std::int64_t{77}}}) {
      const auto filled = [type = type, size = size](int value) {
        return torch::full({size}, value, torch::TensorOptions(type).device(kGpu));
      };
      const at::Tensor tensor = filled(own.rank);
      group.broadcast(tensor, 1);
      EXPECT_TRUE(tensor.equal(filled(1)));
      if (own.rank == 2) group.send(filled(7), 0);
      if (own.rank != 0) continue;
      group.receive(tensor, 2);
      EXPECT_TRUE(tensor.equal(filled(7)));
    }
  });
}

TEST(GpuRanks, RowsAreGatheredInRankOrder) {
  NEEDS_GPU();
  run_on_gpu(3, [](RankGroup& group, const runner::RankOfRun& own) {
    const auto gathered =
        group.gather(torch::full({2 - own.rank, 2}, own.rank, at::device(kGpu).dtype(at::kFloat)));
    EXPECT_EQ(gathered.rows.device(), kGpu);
    EXPECT_TRUE(gathered.rows.cpu().equal(torch::tensor({{0.F, 0.F}, {0.F, 0.F}, {1.F, 1.F}})));
    EXPECT_EQ(gathered.own, own.rank == 0 ? 0 : own.rank == 1 ? 2 : 3);
  });
}

TEST(GpuRanks, OutOfMemoryOnOneRankReachesAll) {
  NEEDS_GPU();
  run_on_gpu(2, [](RankGroup& group, const runner::RankOfRun& own) {
    const std::int64_t too_much = std::int64_t{1} << 45;
    const auto work = [&] {
      if (own.rank == 1) torch::empty({too_much}, at::device(kGpu).dtype(at::kByte));
    };
    EXPECT_THROW(group.together(work), c10::OutOfMemoryError);
    const at::Tensor after = torch::ones({2}, at::device(kGpu));
    group.sum(after);
    EXPECT_TRUE(after.cpu().equal(torch::full({2}, 2.F)));
  });
}

// Each rank has its own GPU: torch runs the backward passes of a GPU in a single thread, in which
// one rank would wait here for the other.
TEST(GpuRanks, BatchNormMatchesTheWholeBatch) {
  if (torch::cuda::device_count() < 2) GTEST_SKIP() << "there is only one GPU";
  const std::int64_t rows = 5, channels = 4;
  const at::Tensor all = numbers_of(3, {rows, channels, 6, 7}, torch::kDouble);
  const at::Tensor slopes = numbers_of(4, all.sizes(), torch::kDouble);
  const auto normalized = [](const at::Tensor& maps, const at::Tensor& weight) {
    return torch::batch_norm(maps, weight, {}, {}, {}, /*training=*/true, 0.1, 1e-5, true);
  };
  const at::Tensor weight = numbers_of(5, {channels}, torch::kDouble).requires_grad_();
  const at::Tensor maps = all.clone().requires_grad_();
  const at::Tensor y = normalized(maps, weight);
  y.backward(slopes);
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    RankGroup& group = *group_of(own);
    const at::Device gpu(at::kCUDA, static_cast<c10::DeviceIndex>(own.rank));
    group.use_gpu(gpu);
    const auto share = [&](const at::Tensor& of) {
      return own.rank == 0 ? of.slice(0, 0, 3) : of.slice(0, 3);
    };
    const at::Tensor own_weight = weight.detach().to(gpu).requires_grad_();
    const at::Tensor own_maps = share(all).to(gpu).requires_grad_();
    at::Tensor own_y;
    const ScopedRankStatistics statistics(own, /*counts=*/true, rows);
    group.together([&] {
      own_y = normalized(own_maps, own_weight);
      own_y.backward(share(slopes).to(gpu));
    });
    const at::Tensor d_weight = own_weight.grad().contiguous();
    group.sum(d_weight);
    // Allows for the rounding of a few successive sums of 210 numbers.
    const double tolerance = 1e3 * std::numeric_limits<double>::epsilon();
    EXPECT_TRUE(own_y.cpu().allclose(share(y), tolerance, tolerance));
    EXPECT_TRUE(own_maps.grad().cpu().allclose(share(maps.grad()), tolerance, tolerance));
    EXPECT_TRUE(d_weight.cpu().allclose(weight.grad(), tolerance, 1e2 * tolerance));
  });
}

}  // namespace
}  // namespace stages
