#pragma once

#include <cstdint>
#include <string>

#include "stages/plan/convolution_bound.h"

namespace stages::meta {

/// The properties of a GPU that determine how much memory its kernels need.
struct GpuKernels {
  std::int64_t multiprocessors = 0;
  bool has_flash = true;  ///< flash attention in half precision, since Ampere
};

/// Returns the properties of the GPU called `model`, such as "NVIDIA L4". For an unknown or empty
/// name, returns those of the largest GPU.
GpuKernels gpu_kernels(std::string model);

// Upper bounds, in bytes, for the memory that GPU kernels allocate for themselves from the tensor
// allocator. The sizes follow LibTorch 2.11's sources (Reduce.cuh, the attention kernels,
// EmbeddingBackward). For cuDNN 9 they were measured on an H100 with deterministic algorithms:
// 1,030 convolutions from seven networks in three types and two layouts, and 1,600 convolutions
// from timm's 92 families with 4 and 16 images.

/// Returns the scratch bytes for the sum over all rows of a (rows, columns) matrix, as in the
/// gradient of a bias.
std::int64_t column_sum_scratch(std::int64_t rows, std::int64_t columns, const GpuKernels& gpu);

/// Attention for `rows` = batch · heads, with `tokens` tokens and heads of width `width`.
struct AttentionShape {
  std::int64_t rows = 0, tokens = 0, width = 0;
  bool is_half = false;
};
std::int64_t attention_backward_scratch(const AttentionShape& shape, const GpuKernels& gpu);

/// Returns the scratch bytes for the gradient of an embedding's weight, computed from a gradient of
/// `elements` values for `indices` rows.
std::int64_t embedding_backward_scratch(std::int64_t elements, std::int64_t indices);

/// Returns the scratch bytes of a convolution kernel. cuDNN computes in channels-last order, with
/// channels in groups of eight; tensors in any other order are copied.
std::int64_t gpu_forward_scratch(const ConvolutionShape& shape);
std::int64_t gpu_input_gradient_scratch(const ConvolutionShape& shape);
/// Returns the scratch bytes of the kernel for a convolution's weight gradient. They include
/// partial sums, since the sum over images and pixels is divided among multiprocessors.
std::int64_t gpu_weight_gradient_scratch(const ConvolutionShape& shape, const GpuKernels& gpu);

}  // namespace stages::meta
