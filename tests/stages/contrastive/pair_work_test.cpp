#include "stages/contrastive/pair_work.h"
#include "stages/contrastive/pair_softmax.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "tests/support/contrastive_formula.h"

namespace stages {
namespace {

constexpr PairWork kBoth[] = {PairWork::kOperators, PairWork::kLines};

std::vector<at::Tensor> worked(const at::Tensor& images, const at::Tensor& texts,
                               const at::Tensor& scale, const PairGroups& groups, std::int64_t tile,
                               PairWork work) {
  const std::vector<at::Tensor> leaves = {images.detach().requires_grad_(),
                                          texts.detach().requires_grad_(),
                                          scale.detach().requires_grad_()};
  const at::Tensor loss = contrastive_loss(leaves[0], leaves[1], leaves[2], groups, tile, work);
  (loss * 3).backward();
  return {loss.detach(), leaves[0].grad() / 3, leaves[1].grad() / 3, leaves[2].grad() / 3};
}

TEST(RunningLogSum, EqualsTheLogSumOfAllPartsInAnyGrouping) {
  const double x[] = {-3, 700, 699.5, -800, 701, 2};
  double sum = 0;
  for (const double one : x) sum += std::exp(one - 701);
  RunningLogSum<double> one_by_one, first, second;
  for (int i = 0; i < 6; ++i) {
    one_by_one.add(x[i]);
    (i < 2 ? first : second).add(x[i]);
  }
  EXPECT_NEAR(one_by_one.value(), 701 + std::log(sum), 1e-12);
  second.add(first);
  second.add(RunningLogSum<double>());
  EXPECT_NEAR(second.value(), one_by_one.value(), 1e-12);
  EXPECT_EQ(RunningLogSum<double>().value(), -std::numeric_limits<double>::infinity());
  second.add(std::nan(""));
  EXPECT_TRUE(std::isnan(second.value()));
}

TEST(PairWork, MatchesTheFormulaForEveryTile) {
  const at::Tensor images = unit_rows(13, 6, 1), texts = unit_rows(13, 6, 2),
                   scale = torch::tensor(2.6592, at::kDouble);
  const PairGroups of_class{
      torch::tensor(std::vector<std::int64_t>{0, 1, 2, 0, 4, 1, 4, 0, 3, 3, 0, 2, 4}), 5};
  for (const PairGroups& groups : {PairGroups{}, of_class}) {
    const auto expected = as_written(images, texts, scale, groups);
    for (const std::int64_t tile : {1, 4, 13, 100}) {
      for (const PairWork work : kBoth)
        expect_equal(worked(images, texts, scale, groups, tile, work), expected);
    }
  }
}

TEST(PairWork, LargeFactorsDoNotOverflow) {
  const at::Tensor x = unit_rows(5, 4, 3), scale = torch::tensor(8.0, at::kDouble);
  for (const PairWork work : kBoth)
    expect_equal(worked(x, -x, scale, {}, 2, work), as_written(x, -x, scale, {}));
}

// If pairs are separated well, the loss is small, and must not be computed as the difference of two
// large sums.
TEST(PairWork, SmallLossKeepsItsPrecisionInFloat32) {
  const at::Tensor images = unit_rows(64, 8, 4), scale = torch::tensor(4.6052, at::kDouble);
  const double expected = as_written(images, images, scale, {})[0].item<double>();
  const at::Tensor narrow = images.to(at::kFloat);
  for (const PairWork work : kBoth) {
    const at::Tensor actual = worked(narrow, narrow, scale.to(at::kFloat), {}, 16, work)[0];
    EXPECT_EQ(actual.scalar_type(), at::kFloat);
    EXPECT_NEAR(actual.item<double>(), expected, 2e-4 * expected);
  }
}

/// Returns the planned peak of live bytes on a GPU for the loss of `pairs` pairs and its gradients.
std::int64_t planned_for_gpu(std::int64_t pairs, std::int64_t tile) {
  register_meta_kernels();
  MemoryTrace trace({.device = at::kCUDA, .threads = 1, .model = {}});
  const auto leaf = [](at::IntArrayRef shape) {
    return torch::empty(shape, at::kMeta).requires_grad_();
  };
  const at::Tensor images = leaf({pairs, 4}), texts = leaf({pairs, 4}), scale = leaf({});
  contrastive_loss(images, texts, scale, {}, tile).backward();
  std::int64_t live = 0, peak = 0;
  for (const TraceEvent& event : trace.events()) {
    live += (event.is_birth ? 1 : -1) * trace.storages()[event.storage].bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

TEST(PairWork, GpuPlanHasNoQuadraticMemoryExceptOneTile) {
  constexpr std::int64_t kTile = 256, kTileBytes = kTile * kTile * 4,
                         kOfPair = 100;  // a width of 4, and a few other values
  for (const std::int64_t pairs : {256, 512, 4096}) {
    EXPECT_GE(planned_for_gpu(pairs, kTile), kTileBytes) << pairs;
    EXPECT_LE(planned_for_gpu(pairs, kTile), kTileBytes + pairs * kOfPair) << pairs;
  }
  EXPECT_LT(planned_for_gpu(32, kTile), kTileBytes / 8) << "a few pairs use a small tile";
}

TEST(PairWork, SecondDerivativeIsRejected) {
  const at::Tensor x = unit_rows(4, 4, 5).requires_grad_(), scale = torch::tensor(1.0, at::kDouble);
  const at::Tensor loss = contrastive_loss(x, x, scale, {}, 2, PairWork::kLines);
  EXPECT_THROW(torch::autograd::grad({loss}, {x}, {}, std::nullopt, /*create_graph=*/true),
               std::logic_error);
}

TEST(PairWork, GradientCanBeComputedTwice) {
  const at::Tensor x = unit_rows(4, 4, 5).requires_grad_(),
                   scale = torch::tensor(1.0, at::kDouble).requires_grad_();
  for (const PairWork work : kBoth) {
    const at::Tensor loss = contrastive_loss(x, unit_rows(4, 4, 6), scale, {}, 8, work);
    const auto once = torch::autograd::grad({loss}, {x, scale}, {}, /*retain_graph=*/true);
    const auto twice = torch::autograd::grad({loss}, {x, scale});
    EXPECT_TRUE(once[0].equal(twice[0]) && once[1].equal(twice[1]));
  }
}

TEST(PairWork, KeepsTheSimilaritiesOfOneTileOnly) {
  const auto kept_bytes = [](std::int64_t tile) {
    register_meta_kernels();
    MemoryTrace trace({.device = at::kCPU, .threads = 1, .model = {}});
    const at::Tensor x = torch::empty({64, 4}, at::kMeta).requires_grad_(),
                     scale = torch::empty({}, at::kMeta);
    const at::Tensor loss = contrastive_loss(x, x, scale, {}, tile);
    std::int64_t kept = 0;
    for (const TraceEvent& event : trace.events())
      kept += (event.is_birth ? 1 : -1) * trace.storages()[event.storage].bytes;
    return kept;
  };
  EXPECT_GE(kept_bytes(64), 64 * 64 * 4) << "similarities are kept for the gradient";
  EXPECT_LT(kept_bytes(63), 64 * 64 * 4);
}

}  // namespace
}  // namespace stages
