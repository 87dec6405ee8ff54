// Checks that attention is planned with the kernel that the GPU uses.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/memory_meter.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "tests/support/needs_gpu.h"

namespace stages {
namespace {

constexpr std::int64_t kTokens = 1024, kHeads = 4;

at::Tensor attend(at::Device device, at::ScalarType type, std::int64_t width) {
  const at::Tensor x =
      torch::empty({1, kHeads, kTokens, width}, at::device(device).dtype(type)).requires_grad_();
  return at::scaled_dot_product_attention(x, x, x);
}

bool is_planned_with_scores(at::ScalarType type, std::int64_t width) {
  register_meta_kernels();
  MemoryTrace trace({.device = at::kCUDA, .threads = 1, .model = {}});
  attend(at::kMeta, type, width);
  const std::int64_t scores =
      kHeads * kTokens * kTokens * static_cast<std::int64_t>(c10::elementSize(type));
  std::int64_t live = 0, peak = 0;
  for (const TraceEvent& event : trace.events()) {
    live += (event.is_birth ? 1 : -1) * trace.storages()[event.storage].bytes;
    peak = std::max(peak, live);
  }
  return peak >= scores;
}

struct Attention {
  at::ScalarType type;
  std::int64_t width;
};
constexpr Attention kAll[] = {{at::kFloat, 64}, {at::kFloat, 30},  {at::kHalf, 64},
                              {at::kHalf, 60},  {at::kDouble, 64}, {at::kBFloat16, 64}};

TEST(GpuAttention, IsPlannedAsProductsWithoutAFusedKernel) {
  EXPECT_FALSE(is_planned_with_scores(at::kFloat, 64));
  EXPECT_FALSE(is_planned_with_scores(at::kHalf, 64));
  EXPECT_TRUE(is_planned_with_scores(at::kDouble, 64)) << "no fused kernel supports float64";
  EXPECT_TRUE(is_planned_with_scores(at::kHalf, 60))
      << "the size of 60 halves is not a multiple of 16 bytes";
  EXPECT_TRUE(is_planned_with_scores(at::kFloat, 30));
}

TEST(GpuAttention, NeedsNoMoreMemoryThanPlanned) {
  NEEDS_GPU();
  const at::Device gpu(at::kCUDA, 0);
  for (const auto& [type, width] : kAll) {
    MemoryMeter meter(gpu);
    meter.peak_since_last();
    const std::int64_t before = meter.in_use();
    attend(gpu, type, width);
    const std::int64_t scores =
        kHeads * kTokens * kTokens * static_cast<std::int64_t>(c10::elementSize(type));
    const bool has_scores = meter.peak_since_last() - before >= scores;
    EXPECT_LE(has_scores, is_planned_with_scores(type, width)) << type << " " << width;
  }
}

}  // namespace
}  // namespace stages
