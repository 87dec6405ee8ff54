// Checks that the GPU's kernels compute the same contrastive loss as the CPU, and need no more
// memory than planned.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/contrastive/contrastive_loss.h"
#include "stages/machine/memory_meter.h"
#include "tests/support/contrastive_formula.h"
#include "tests/support/needs_gpu.h"

namespace stages {
namespace {

std::vector<at::Tensor> on_gpu(const at::Tensor& images, const at::Tensor& texts,
                               const at::Tensor& scale, PairGroups groups, std::int64_t tile) {
  if (groups.of_pair.defined()) groups.of_pair = groups.of_pair.to(kGpu);
  const auto leaf = [](const at::Tensor& x) { return x.detach().to(kGpu).requires_grad_(); };
  const at::Tensor a = leaf(images), b = leaf(texts), c = leaf(scale);
  const at::Tensor loss = contrastive_loss(a, b, c, groups, tile);
  loss.backward();
  return {loss.detach().cpu(), a.grad().cpu(), b.grad().cpu(), c.grad().cpu()};
}

TEST(GpuContrastive, MatchesTheFormulaForEveryTile) {
  NEEDS_GPU();
  const at::Tensor images = unit_rows(300, 16, 1), texts = unit_rows(300, 16, 2),
                   scale = torch::tensor(3.0, at::kDouble);
  const PairGroups of_class{torch::arange(300).remainder(7), 7};
  for (const PairGroups& groups : {PairGroups{}, of_class}) {
    const auto expected = as_written(images, texts, scale, groups);
    for (const std::int64_t tile : {77, 128, 2048}) {
      const auto actual = on_gpu(images, texts, scale, groups, tile);
      expect_equal(actual, expected);
      const auto again = on_gpu(images, texts, scale, groups, tile);
      for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_TRUE(actual[i].equal(again[i])) << tile << " " << i;
    }
  }
}

TEST(GpuContrastive, UsesMemoryForOneTile) {
  NEEDS_GPU();
  constexpr std::int64_t kPairs = 4096, kWidth = 8, kTile = 512;
  const at::Tensor images = unit_rows(kPairs, kWidth, 1).to(at::kFloat).to(kGpu).requires_grad_();
  const at::Tensor scale = torch::tensor(3.0F, kGpu);
  contrastive_loss(images, images, scale, {}, kTile)
      .backward();  // makes libraries allocate their memory
  MemoryMeter meter(kGpu);
  meter.peak_since_last();
  const std::int64_t before = meter.in_use();
  contrastive_loss(images, images, scale, {}, kTile).backward();
  EXPECT_LT(meter.peak_since_last() - before,
            kTile * kTile * 4 + kPairs * (4 * kWidth + 12) * 4 + (4 << 20));
}

}  // namespace
}  // namespace stages
