#include "stages/plan/convolution_bound.h"

#include <algorithm>
#include <limits>

namespace stages::meta {
namespace {

/// kVector: values in the widest vector. kBlock: channels in the widest block. kTile: values in one
/// row of a half-precision tile. kColors: channels of an RGB image.
constexpr std::int64_t kVector = 16, kBlock = 64, kTile = 32, kColors = 3;
constexpr std::int64_t kSum = 4;  // bytes of a float32 sum

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return divided_up(a, b) * b; }
std::int64_t in_vectors(std::int64_t channels) { return rounded_up(channels, kVector); }

/// True for the usual depthwise convolutions, for which oneDNN has special kernels. Others are
/// computed as groups of one channel.
bool is_depthwise(const ConvolutionShape& shape) {
  return shape.groups > 1 && shape.groups == shape.in && shape.groups == shape.out &&
         shape.stride <= 2 && shape.dilation == 1 && shape.kernel_height == shape.kernel_width &&
         shape.kernel_width <= 7 && shape.padding <= shape.kernel_width / 2;
}

/// Returns the number of elements in a weight with each group's channels padded separately.
std::int64_t padded_groups(const ConvolutionShape& shape) {
  return shape.groups * in_vectors(shape.in / shape.groups) * in_vectors(shape.out / shape.groups) *
         shape.kernel();
}

/// Returns the number of channels in all groups, padded to blocks, for a product that sums over the
/// channels.
std::int64_t in_blocks(const ConvolutionShape& shape, std::int64_t channels) {
  if (is_depthwise(shape)) return in_vectors(channels);
  const std::int64_t each = channels / shape.groups;
  return shape.groups *
         rounded_up(each, each < kBlock ? (shape.is_half() ? kTile : kVector) : kBlock);
}

/// Returns the number of pixels in an input image with `border` on each side.
std::int64_t bordered(const ConvolutionShape& shape, std::int64_t border) {
  return (shape.in_height + 2 * border) * (shape.in_width + 2 * border);
}

/// True if a kernel of the family that unfolds images may be used.
bool may_unfold(const ConvolutionShape& shape) {
  constexpr std::int64_t kLargest = 7, kMostBytes = std::numeric_limits<std::int32_t>::max();
  const std::int64_t side = shape.kernel_height,
                     channels = std::max(in_vectors(shape.in), in_vectors(shape.out));
  const bool is_usual =
      side == shape.kernel_width && side <= kLargest && shape.padding <= side / 2 &&
      shape.stride <= std::max<std::int64_t>(side, 2) && shape.dilation == 1 && shape.groups == 1 &&
      shape.in > 1 && side <= std::min(shape.in_height, shape.in_width) && !shape.is_half() &&
      shape.batch * channels * shape.in_area() * shape.element_bytes <= kMostBytes;
  return shape.unfolds_images || !is_usual;
}

/// Returns the number of elements in an unfolded image; 0 if none may be unfolded. A channels_last
/// image is transposed first.
std::int64_t unfolded(const ConvolutionShape& shape) {
  if (!may_unfold(shape)) return 0;
  return shape.unfolded_elements() +
         (shape.is_copied() ? 0 : shape.in / shape.groups * shape.in_area());
}

/// Returns an upper bound on the number of image elements that a thread buffers to compute its
/// result, including padding and the space that the stride adds. For a single-channel image, oneDNN
/// keeps one copy per kernel row and, within each copy, repeats every pixel once per kernel row.
std::int64_t read_image(const ConvolutionShape& shape) {
  if (shape.is_pointwise() && shape.padding == 0) return 0;
  const bool is_single = shape.in == shape.groups && !is_depthwise(shape);
  const std::int64_t rows = shape.in_height + 2 * shape.padding +
                            shape.kernel_height * (shape.dilation + 1),
                     pixels = rows * (shape.in_width + 2 * shape.padding) *
                              (shape.padding > 0 || is_single ? shape.stride : 1);
  // Tiles of half-precision types (AMX) use twice the memory for images with few channels: 27 MiB
  // were measured for two images of 224 x 224 in patches of 32 x 32, with four threads on a Xeon.
  const std::int64_t of_tiles = shape.is_half() && shape.in / shape.groups < kTile ? 2 : 1;
  return pixels * (is_single && shape.dilation == 1
                       ? shape.kernel_height * shape.kernel_height * shape.in
                       : of_tiles * in_blocks(shape, shape.in));
}

/// Returns an upper bound on the number of elements of the result's gradient that a thread buffers.
std::int64_t read_gradient(const ConvolutionShape& shape) {
  if (shape.is_pointwise() && shape.padding == 0 && shape.stride == 1) return 0;
  const std::int64_t high = shape.dilation * shape.kernel_height / shape.stride + 1,
                     wide = shape.dilation * shape.kernel_width / shape.stride + 1;
  return in_blocks(shape, shape.out) * (shape.out_height + 2 * high) * (shape.out_width + 2 * wide);
}

/// Returns the bytes for lists of products, barriers, row buffers and, for half-precision types,
/// tiles: those shared by all threads, plus those for each thread.
std::int64_t lists(const ConvolutionShape& shape) {
  const std::int64_t tiles = shape.is_half() ? 16 << 10 : 0;
  return (32 << 10) + shape.threads * ((24 << 10) + tiles + 80 * shape.kernel());
}

/// Returns the number of bytes that the threads of a pointwise convolution with `channels` and
/// `area` gather: the pixels of an image that a stride selects and, for half-precision types, the
/// sums.
std::int64_t gathered(const ConvolutionShape& shape, std::int64_t channels, std::int64_t area) {
  if (!shape.is_pointwise()) return 0;
  const std::int64_t read =
      shape.stride > 1 ? in_vectors(shape.in) * shape.area() * shape.element_bytes : 0;
  return shape.threads * (read + (shape.is_half() ? kSum * in_vectors(channels) * area : 0));
}

/// Returns whichever is larger: a direct kernel's scratch memory, or the memory that a kernel of
/// the other family uses in addition to the direct kernel's copies.
std::int64_t larger(const ConvolutionShape& shape, std::int64_t direct, std::int64_t unfolding,
                    std::int64_t copies) {
  return std::max(direct, unfolding - (shape.is_copied() ? copies : 0));
}

/// Returns the number of elements that threads transpose in half-precision images and result
/// gradients, with rows padded to tiles: one image per group, or more if several threads share a
/// group.
std::int64_t turned_halves(const ConvolutionShape& shape) {
  const std::int64_t row = shape.stride *
                           rounded_up(divided_up(shape.in_width, shape.stride) + shape.padding + 2,
                                      kTile),
                     images = std::max<std::int64_t>(divided_up(shape.threads, shape.groups), 1);
  return images * shape.groups *
         (in_vectors(shape.in / shape.groups) * shape.in_height * row +
          in_vectors(shape.out / shape.groups) * shape.out_height * (shape.out_width + 1));
}

}  // namespace

bool takes_onednn(const ConvolutionShape& shape) {
  const bool strided_or_dilated = shape.stride > 1 || shape.dilation > 1;
  if (!strided_or_dilated && shape.batch < 16 && shape.is_pointwise() && shape.threads == 1)
    return false;
  return shape.groups > 1 || (shape.kernel_width > 3 && shape.kernel_height > 3) ||
         shape.batch > 1 || shape.batch * shape.in * shape.in_area() > 20480;
}

std::int64_t blocked_input(const ConvolutionShape& shape) {
  if (!shape.may_be_copied()) return 0;
  // An RGB image is not padded unless it is treated as a matrix.
  const bool is_image = shape.in == kColors && shape.groups == 1 && !shape.is_pointwise();
  return shape.batch * (is_image ? shape.in : in_vectors(shape.in)) * shape.in_area() *
         shape.element_bytes;
}

std::int64_t blocked_input_gradient(const ConvolutionShape& shape) {
  if (!shape.may_be_copied()) return 0;
  return shape.batch * in_vectors(shape.in) * shape.in_area() * shape.element_bytes;
}

std::int64_t blocked_result(const ConvolutionShape& shape) {
  if (!shape.may_be_copied()) return 0;
  return shape.batch * in_vectors(shape.out) * shape.area() * shape.element_bytes;
}

std::int64_t blocked_weight(const ConvolutionShape& shape) {
  if (is_depthwise(shape)) return in_vectors(shape.groups) * shape.kernel() * shape.element_bytes;
  if (shape.groups > 1) return padded_groups(shape) * shape.element_bytes;
  const std::int64_t of_result = rounded_up(shape.out, kBlock) * in_vectors(shape.in),
                     of_input = in_vectors(shape.out) * rounded_up(shape.in, kBlock);
  return std::max(of_result, of_input) * shape.kernel() * shape.element_bytes;
}

std::int64_t blocked_weight_gradient(const ConvolutionShape& shape) {
  return padded_groups(shape) * shape.element_bytes;
}

std::int64_t forward_scratch(const ConvolutionShape& shape) {
  const std::int64_t sums = shape.is_half() ? kSum * shape.out * shape.area() : 0,
                     read = shape.threads * (read_image(shape) * shape.element_bytes + sums),
                     unfolding = shape.threads * (unfolded(shape) * shape.element_bytes + sums);
  return lists(shape) + larger(shape, std::max(gathered(shape, shape.out, shape.area()), read),
                               unfolding, blocked_input(shape) + blocked_weight(shape));
}

std::int64_t input_gradient_scratch(const ConvolutionShape& shape) {
  // If patches overlap or leave gaps, each thread accumulates a block of channels of one image,
  // including its border.
  const std::int64_t border = (shape.kernel_width + shape.stride) / 2 + 4,
                     collected = shape.stride > 1
                                     ? shape.threads * kSum * kBlock * bordered(shape, border)
                                     : 0,
                     sums = shape.is_half() ? shape.threads * kSum * shape.in * shape.in_area() : 0,
                     read = shape.threads * shape.element_bytes * read_gradient(shape),
                     added = shape.threads * kSum * in_vectors(shape.in) *
                             bordered(shape, shape.padding);
  return lists(shape) + sums +
         larger(shape, std::max({collected, read, gathered(shape, shape.in, shape.in_area())}),
                std::max(shape.threads * kSum * unfolded(shape), added),
                blocked_result(shape) + blocked_weight(shape));
}

std::int64_t weight_gradient_scratch(const ConvolutionShape& shape) {
  // Threads are assigned to groups before they are assigned to images.
  const std::int64_t parts =
      shape.groups == 1
          ? shape.threads
          : std::min(shape.threads, divided_up(kVector * shape.threads, shape.groups));
  const std::int64_t one =
      is_depthwise(shape) ? in_vectors(shape.groups) * shape.kernel() : padded_groups(shape);
  std::int64_t direct = parts * kSum * one + gathered(shape, shape.out, shape.area());
  if (shape.is_half())
    direct += kSum * padded_groups(shape) + turned_halves(shape) * shape.element_bytes;
  const std::int64_t unfolding =
      shape.threads * (unfolded(shape) * shape.element_bytes +
                       (may_unfold(shape) ? 4 * kSum * shape.weight_elements() : 0));
  return lists(shape) +
         larger(shape, direct, unfolding, blocked_input(shape) + blocked_result(shape));
}

}  // namespace stages::meta
