#include "stages/plan/gpu_scratch.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <initializer_list>
#include <string_view>

namespace stages::meta {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kSumBytes = 4;  // of float32

std::int64_t padded_to(std::int64_t number, std::int64_t to) { return (number + to - 1) / to * to; }

std::int64_t in_parts(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

struct GpuFamily {
  std::initializer_list<std::string_view> words;
  GpuKernels kernels;
};

}  // namespace

GpuKernels gpu_kernels(std::string model) {
  static const GpuFamily families[] = {
      {{"h100", "h200", "h800", "h20", "gh200"}, {.multiprocessors = 132}},
      {{"a100", "a800"}, {.multiprocessors = 108}},
      {{"l40", "6000 ada"}, {.multiprocessors = 142}},
      {{"l4"}, {.multiprocessors = 58}},
      {{"a10", "a40", "a6000", "a5000", "a4000"}, {.multiprocessors = 84}},
      {{"rtx 40"}, {.multiprocessors = 128}},
      {{"rtx 30"}, {.multiprocessors = 84}},
      {{"t4"}, {.multiprocessors = 40, .has_flash = false}},
      {{"v100"}, {.multiprocessors = 80, .has_flash = false}},
      {{"rtx 20", "titan rtx", "quadro rtx"}, {.multiprocessors = 72, .has_flash = false}},
  };
  std::ranges::transform(model, model.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const GpuFamily& family : families) {
    if (std::ranges::any_of(family.words,
                            [&](auto word) { return model.find(word) != model.npos; }))
      return family.kernels;
  }
  return {.multiprocessors = 188};
}

std::int64_t column_sum_scratch(std::int64_t rows, std::int64_t columns, const GpuKernels& gpu) {
  // A multiprocessor runs 16 blocks of at least 128 threads; each thread sums up to four
  // neighboring columns. Rows are divided among blocks if each thread would otherwise read 256 or
  // more.
  constexpr std::int64_t kBlocks = 16, kWidth = 128, kHeight = 4, kFew = 16, kMany = 256;
  if (columns == 0 || rows < kHeight * kMany) return 0;
  const auto width = std::min<std::int64_t>(
      kWidth, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(columns))));
  const std::int64_t blocks = in_parts(columns, width);
  const std::int64_t parts = std::max(
      std::min(in_parts(kBlocks * gpu.multiprocessors, blocks), in_parts(rows, kHeight * kFew)),
      in_parts(rows, kHeight * kMany));
  return kSumBytes * columns * width * parts;
}

std::int64_t attention_backward_scratch(const AttentionShape& shape, const GpuKernels& gpu) {
  const std::int64_t elements = shape.rows * shape.tokens * shape.width;
  if (shape.is_half && gpu.has_flash) {
    // The gradient of the queries in float32, one sum per query, and copies of the result and its
    // gradient.
    const std::int64_t tokens = padded_to(shape.tokens, 128), width = padded_to(shape.width, 32);
    return kSumBytes * shape.rows * tokens * (width + 1) + 2 * 2 * elements;
  }
  // The product of the result and its gradient in float32, then the gradients of keys and values,
  // which the kernel accumulates.
  const std::int64_t product = kSumBytes * elements * (shape.is_half ? 3 : 1);
  const std::int64_t sums =
      kSumBytes * shape.rows * padded_to(shape.tokens, shape.width > 32 ? 64 : 128) * shape.width;
  return std::max(product, sums) + 2 * kSumBytes * shape.rows * padded_to(shape.tokens, 32);
}

std::int64_t embedding_backward_scratch(std::int64_t elements, std::int64_t indices) {
  constexpr std::int64_t kSorted = 256;  // bytes to sort one index with its position
  return kSumBytes * elements + kSorted * indices;
}

namespace {

/// Returns the bytes needed to copy the images, the result and the weight to an order with channels
/// in groups of eight; 0 if they are already in this order.
std::int64_t copies(const ConvolutionShape& shape) {
  constexpr std::int64_t kChannels = 8;
  const std::int64_t in = padded_to(shape.in, kChannels), out = padded_to(shape.out, kChannels),
                     of_group = padded_to(shape.in / shape.groups, kChannels);
  const bool has_order =
      shape.channels_last && shape.element_bytes == 2 && in == shape.in && out == shape.out;
  if (has_order && (shape.groups > 1 || of_group == shape.in)) return 0;
  return shape.element_bytes * (shape.batch * (in * shape.in_area() + out * shape.area()) +
                                shape.out * of_group * shape.kernel());
}

/// Adds a margin for memory that kernels allocate in addition to copies.
std::int64_t with_room(std::int64_t bytes) { return bytes + bytes / 50 + kMiB; }

std::int64_t result_bytes(const ConvolutionShape& shape) {
  return shape.element_bytes * shape.batch * shape.out * shape.area();
}

std::int64_t image_bytes(const ConvolutionShape& shape) {
  return shape.element_bytes * shape.batch * shape.in * shape.in_area();
}

bool is_by_channel(const ConvolutionShape& shape) {
  return shape.groups > 1 && shape.groups == shape.in;
}

bool is_in_groups(const ConvolutionShape& shape) {
  return shape.groups > 1 && shape.groups < shape.in;
}

/// True for depthwise convolutions other than the usual ones, which have one result per channel. In
/// half precision, cuDNN copies their tensors to float32.
bool is_rare_by_channel(const ConvolutionShape& shape) {
  return is_by_channel(shape) && (shape.out != shape.in || shape.is_pointwise());
}

}  // namespace

std::int64_t gpu_forward_scratch(const ConvolutionShape& shape) {
  const std::int64_t elements = shape.weight_elements();
  std::int64_t bytes = with_room(copies(shape)) + std::min(4 * kSumBytes * elements, 4 * kMiB);
  if (shape.is_half()) return bytes + (is_in_groups(shape) ? kMiB : 0);
  // Partial sums, or the transformed weight.
  if (!is_by_channel(shape))
    bytes += std::min(4 * result_bytes(shape), std::max(8 * kMiB, 2 * kSumBytes * elements));
  if (is_in_groups(shape)) bytes += std::min(3 * image_bytes(shape), 16 * kMiB);
  return bytes;
}

std::int64_t gpu_input_gradient_scratch(const ConvolutionShape& shape) {
  const std::int64_t elements = shape.weight_elements(), copied = copies(shape);
  const std::int64_t sums = std::min(kSumBytes * elements, 2 * kMiB);
  if (shape.is_half()) {
    const std::int64_t tensors = image_bytes(shape) + result_bytes(shape);
    const bool is_converted = is_in_groups(shape) || (shape.is_pointwise() && copied > 0) ||
                              (shape.stride > 1 && !is_by_channel(shape));
    if (is_rare_by_channel(shape)) return with_room(copied + 3 * tensors + tensors / 3) + sums;
    return with_room(copied + (is_converted ? tensors + tensors / 3 + kMiB : 0)) + sums;
  }
  // Some float32 kernels transform the images.
  const bool is_transformed = shape.stride == 1 && shape.groups == 1 && !shape.is_pointwise();
  const std::int64_t of_weight =
      shape.is_pointwise() && shape.groups == 1 ? std::min(kSumBytes * elements, 16 * kMiB) : 0;
  return with_room((is_in_groups(shape) ? 3 : is_transformed ? 2 : 1) * copied) + sums + of_weight;
}

std::int64_t gpu_weight_gradient_scratch(const ConvolutionShape& shape, const GpuKernels& gpu) {
  constexpr std::int64_t kLarge = 1 << 20,
                         kMost = 48 * kMiB;  // elements of a weight; bytes of partial sums
  const std::int64_t elements = shape.weight_elements(), copied = copies(shape);
  const std::int64_t parts =
      elements > kLarge ? 0 : std::min(gpu.multiprocessors * kSumBytes * elements, kMost);
  if (shape.is_half()) {
    const std::int64_t tensors = image_bytes(shape) + result_bytes(shape);
    const std::int64_t converted = is_rare_by_channel(shape)           ? 4 * tensors
                                   : is_by_channel(shape)              ? 0
                                   : shape.stride > 1 && shape.in < 64 ? 3 * tensors / 2
                                                                       : 6 * kMiB;
    return copied + copied / 10 + parts + converted + 4 * kMiB;
  }
  // Measured once, in a training run on 105 three-channel images: 1.0 GiB, with copies of 0.2 GiB.
  const std::int64_t few = shape.in < 8 && !shape.is_pointwise() ? (shape.stride == 1 ? 6 : 2) : 1;
  const std::int64_t of_weight =
      std::min((shape.is_pointwise() ? 15 : 3) * kSumBytes * elements, 2 * kMost);
  return few * copied + few * copied / 10 + std::max(parts, of_weight) + 7 * kMiB;
}

}  // namespace stages::meta
