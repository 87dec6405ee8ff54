// Compares the additional memory of a plan for a GPU with measurements on an H100 (driver 580,
// LibTorch 2.11, cuDNN 9, deterministic algorithms): each bound is at least as large.

#include "stages/plan/gpu_backend.h"

#include <functional>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/plan/gpu_scratch.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/summarize.h"

namespace stages {
namespace {

constexpr double kMebibyte = 1 << 20;
const meta::GpuKernels kH100 = meta::gpu_kernels("NVIDIA H100 80GB HBM3");

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / kMebibyte; }

TEST(GpuBackend, WorkspacesLiveAsLongAsTheyAreHeld) {
  register_meta_kernels();
  MemoryTrace trace({.device = at::kCUDA, .model = "NVIDIA H100 80GB"});
  {
    const auto workspaces = library_workspaces(trace);
    EXPECT_EQ(summarize(trace, 0, trace.backend(), {}).live, 65 << 20);
  }
  EXPECT_EQ(summarize(trace, trace.events().size(), trace.backend(), {}).owners.size(), 0U);
}

TEST(GpuBackend, CpuHasNoWorkspaces) {
  MemoryTrace trace({.device = at::kCPU});
  EXPECT_THAT(library_workspaces(trace), testing::IsEmpty());
}

TEST(GpuBackend, ContextMatchesMeasurements) {
  const GpuContext hopper = gpu_context("NVIDIA H100 80GB HBM3");
  EXPECT_GE(mib(hopper.in_all), 720);
  EXPECT_LE(mib(hopper.at_start), 532);
  EXPECT_LT(gpu_context("Tesla T4").in_all, hopper.in_all);
  EXPECT_GT(gpu_context("").at_start, 0);
}

TEST(GpuScratch, ColumnSumsMatchMeasurements) {
  EXPECT_EQ(mib(meta::column_sum_scratch(12608, 3072, kH100)), 132);
  EXPECT_EQ(mib(meta::column_sum_scratch(12608, 4096, kH100)), 132);
  EXPECT_EQ(meta::column_sum_scratch(64, 1 << 20, kH100), 0) << "too few rows to divide";
  EXPECT_LT(meta::column_sum_scratch(12608, 3072, meta::gpu_kernels("Tesla T4")), 132 << 20);
  EXPECT_GT(meta::column_sum_scratch(12608, 3072, meta::gpu_kernels("a new one")), 132 << 20);
}

struct MeasuredAttention {
  meta::AttentionShape shape;
  double mib;
};

TEST(GpuScratch, AttentionBackwardMatchesMeasurements) {
  constexpr std::int64_t kHeads = 12;
  const MeasuredAttention all[] = {
      {{64 * kHeads, 197, 64, false}, 48.62},  {{64 * kHeads, 50, 64, false}, 12.16},
      {{32 * kHeads, 257, 64, false}, 30.41},  {{128 * kHeads, 77, 64, false}, 48.5},
      {{16 * kHeads, 1024, 64, false}, 49.5},  {{64 * kHeads, 197, 128, false}, 96.62},
      {{32 * kHeads, 17, 32, false}, 6.03},    {{64 * kHeads, 197, 64, true}, 85.69},
      {{64 * kHeads, 50, 64, true}, 33.75},    {{32 * kHeads, 257, 64, true}, 60.66},
      {{128 * kHeads, 77, 64, true}, 77.62},   {{16 * kHeads, 1024, 64, true}, 96.75},
      {{64 * kHeads, 197, 128, true}, 170.62}, {{32 * kHeads, 17, 32, true}, 7.17}};
  for (const auto& [shape, taken] : all) {
    const double bound = mib(meta::attention_backward_scratch(shape, kH100));
    EXPECT_GE(bound, taken - 0.2) << shape.tokens << " " << shape.width << " " << shape.is_half;
    EXPECT_LE(bound, 1.1 * taken + 0.5) << shape.tokens << " " << shape.width << shape.is_half;
  }
}

TEST(GpuScratch, AttentionBeforeAmpereIsWidenedToFloat32) {
  const meta::AttentionShape shape = {64 * 12, 197, 64, true};
  EXPECT_GE(meta::attention_backward_scratch(shape, meta::gpu_kernels("Tesla T4")),
            3 * 4 * shape.rows * shape.tokens * shape.width);
}

meta::ConvolutionShape convolution(std::int64_t batch, std::int64_t in, std::int64_t pixels,
                                   std::int64_t out, std::int64_t kernel, std::int64_t groups,
                                   std::int64_t stride, bool is_half, bool channels_last = false) {
  return {.batch = batch,
          .in = in,
          .out = out,
          .groups = groups,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .dilation = 1,
          .in_height = pixels,
          .in_width = pixels,
          .out_height = (pixels + stride - 1) / stride,
          .out_width = (pixels + stride - 1) / stride,
          .element_bytes = is_half ? 2 : 4,
          .channels_last = channels_last};
}

struct MeasuredConvolution {
  meta::ConvolutionShape shape;
  double forward, of_input, of_weight;  // MiB
};

// Covers the measured convolutions that need the most memory, absolutely and relative to their
// tensors, and one for which the memory was derived from the peak of a training run.
TEST(GpuScratch, ConvolutionsMatchMeasurements) {
  const MeasuredConvolution all[] = {
      {convolution(16, 256, 56, 256, 3, 32, 2, false), 61.3, 61.3, 61.4},
      {convolution(16, 3, 224, 64, 7, 1, 2, false), 58.2, 62.2, 64.1},
      {convolution(105, 128, 11, 128, 3, 1, 1, false), 13.34, 25.97, 13},
      {convolution(16, 16, 112, 96, 1, 1, 1, false), 0, 0, 86.4},
      {convolution(16, 1024, 14, 1024, 1, 1, 1, false), 0, 0, 64},
      {convolution(105, 3, 84, 64, 3, 1, 1, false), 0, 0, 1070},
      {convolution(16, 128, 28, 32, 3, 1, 1, false), 8.19, 0, 18},
      {convolution(16, 352, 7, 2112, 1, 1, 1, true), 0, 0, 45.38},
      {convolution(16, 1248, 7, 208, 1, 1, 1, true), 5.68, 0, 15.84},
      {convolution(16, 3, 224, 64, 7, 1, 2, true), 36.8, 37, 42.5},
      {convolution(16, 1248, 7, 1248, 5, 1248, 1, true, true), 0, 0, 16.1},
      {convolution(32, 3, 48, 64, 7, 1, 2, true, true), 1.3, 3.74, 3.7},
      {convolution(16, 512, 28, 512, 3, 1, 1, false), 74, 0, 0},
      {convolution(16, 48, 28, 192, 3, 2, 2, false), 16.4, 0, 0},
      {convolution(16, 12, 112, 48, 3, 2, 2, false), 0, 61.3, 0},
      {convolution(16, 512, 14, 1024, 3, 2, 1, false), 0, 41.4, 0},
      {convolution(16, 1024, 10, 1536, 1, 1, 1, false), 0, 0, 96},
      {convolution(16, 616, 14, 2464, 1, 1, 1, false), 0, 0, 92.64},
      {convolution(4, 1024, 7, 224, 3, 1, 1, false), 0, 0, 34.2},
      {convolution(16, 48, 64, 96, 7, 48, 2, true, true), 0, 30.09, 0},
      {convolution(16, 48, 128, 48, 1, 48, 2, true, true), 0, 0, 121.74},
      {convolution(16, 24, 112, 48, 3, 1, 2, true, true), 0, 0, 28.59},
      {convolution(16, 768, 7, 1540, 1, 1, 1, true, true), 0, 13.79, 13.6}};
  for (const auto& [shape, forward, of_input, of_weight] : all) {
    EXPECT_GE(mib(meta::gpu_forward_scratch(shape)), forward) << shape.in << " " << shape.out;
    EXPECT_GE(mib(meta::gpu_input_gradient_scratch(shape)), of_input)
        << shape.in << " " << shape.out;
    EXPECT_GE(mib(meta::gpu_weight_gradient_scratch(shape, kH100)), of_weight)
        << shape.in << " " << shape.out;
  }
  EXPECT_LT(mib(meta::gpu_forward_scratch(convolution(16, 256, 56, 256, 3, 1, 1, true, true))), 6)
      << "channels_last tensors are not copied";
}

/// Returns the scratch memory of the kernels of an operation in a trace for a GPU.
std::int64_t traced_scratch(const std::function<void()>& operation) {
  register_meta_kernels();
  MemoryTrace trace({.device = at::kCUDA, .model = "NVIDIA H100 80GB"});
  operation();
  std::int64_t bytes = 0;
  for (const TracedStorage& storage : trace.storages()) bytes += storage.is_scratch * storage.bytes;
  return bytes;
}

TEST(GpuScratch, IsTracedForBackwardPasses) {
  const auto meta_tensor = [](at::IntArrayRef shape) {
    return torch::empty(shape, at::TensorOptions(at::kMeta)).requires_grad_(true);
  };
  EXPECT_EQ(mib(traced_scratch([&] {
              at::linear(meta_tensor({12608, 768}), meta_tensor({3072, 768}), meta_tensor({3072}))
                  .sum()
                  .backward();
            })),
            132)
      << "the gradient of the bias";
  EXPECT_GE(mib(traced_scratch([&] {
              const at::Tensor q = meta_tensor({64, 12, 197, 64});
              at::scaled_dot_product_attention(q, q, q).sum().backward();
            })),
            48.62);
  EXPECT_GE(mib(traced_scratch([&] {
              meta_tensor({64, 12, 197, 197}).softmax(-1).sum().backward();
            })),
            113.6);
  EXPECT_GE(mib(traced_scratch([&] {
              const at::Tensor ids =
                  torch::empty({128, 77}, at::TensorOptions(at::kMeta).dtype(at::kLong));
              at::embedding(meta_tensor({49408, 512}), ids).sum().backward();
            })),
            21.6);
  EXPECT_GE(mib(traced_scratch([&] {
              const at::Tensor index =
                  torch::empty({64}, at::TensorOptions(at::kMeta).dtype(at::kLong));
              meta_tensor({32, 256, 56, 56}).index_select(0, index).sum().backward();
            })),
            98)
      << "half of the measured memory, including the zeros that it is added to";
}

}  // namespace
}  // namespace stages
