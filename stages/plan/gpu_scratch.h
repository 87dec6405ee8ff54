#pragma once

#include <cstdint>
#include <string>

#include "stages/plan/convolution_bound.h"

namespace stages::meta {

/// The properties of a GPU on which the memory of its kernels depends.
struct GpuKernels {
  std::int64_t multiprocessors = 0;
  bool has_flash = true;  ///< attention in half precision by flash kernels, from Ampere on
};

/// Of a GPU by its name, "NVIDIA L4". An unknown or empty name gives the largest GPU's.
GpuKernels gpu_kernels(std::string model);

// Upper bounds, in bytes, of what kernels of a GPU take from the tensor allocator for themselves.
// The sizes follow LibTorch 2.11's sources (Reduce.cuh, the attention kernels, EmbeddingBackward),
// or, for cuDNN 9, were measured on an H100 with deterministic algorithms: 1,030 convolutions of
// seven networks in three types and two layouts, and those of timm's 92 families, 1,600, with 4 and
// 16 images.

/// The sum over all rows of a (rows, columns) matrix, as for the gradient of a bias.
std::int64_t column_sum_scratch(std::int64_t rows, std::int64_t columns, const GpuKernels& gpu);

/// Attention of `rows` = batch · heads, each over `tokens`, heads `width` wide.
struct AttentionShape {
  std::int64_t rows = 0, tokens = 0, width = 0;
  bool is_half = false;
};
std::int64_t attention_backward_scratch(const AttentionShape& shape, const GpuKernels& gpu);

/// The gradient of an embedding's weight, from a gradient of `elements` numbers for `indices` rows.
std::int64_t embedding_backward_scratch(std::int64_t elements, std::int64_t indices);

/// cuDNN computes in the order of pixels, with channels in groups of eight; what has another order
/// is copied.
std::int64_t gpu_forward_scratch(const ConvolutionShape& shape);
std::int64_t gpu_input_gradient_scratch(const ConvolutionShape& shape);
/// In addition, the sum over images and pixels is divided among multiprocessors.
std::int64_t gpu_weight_gradient_scratch(const ConvolutionShape& shape, const GpuKernels& gpu);

}  // namespace stages::meta
