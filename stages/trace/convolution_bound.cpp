#include "stages/trace/convolution_bound.h"

#include <algorithm>
#include <cmath>

namespace stages::meta {
namespace {

/// Numbers in a vector, of the widest; channels in the widest block of them; channels of a picture.
constexpr std::int64_t kVector = 16, kBlock = 64, kColours = 3;
constexpr std::int64_t kSum = 4;  // bytes

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return divided_up(a, b) * b; }
std::int64_t in_vectors(std::int64_t channels) { return rounded_up(channels, kVector); }

bool is_depthwise(const ConvolutionShape& shape) {
  return shape.groups > 1 && shape.groups == shape.in && shape.groups == shape.out;
}

/// Pixels of a square of so many with `border` on each side.
std::int64_t bordered(std::int64_t area, std::int64_t border) {
  const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(area))));
  return (side + 2 * border) * (side + 2 * border);
}

/// Each group of channels is padded for itself.
std::int64_t padded_groups(const ConvolutionShape& shape) {
  return shape.groups * in_vectors(shape.in / shape.groups) * in_vectors(shape.out / shape.groups) * shape.kernel();
}

/// An image as a thread may hold it: with its border, or unfolded, for which it is turned where it is channels_last.
std::int64_t image_elements(const ConvolutionShape& shape) {
  const std::int64_t turned = shape.is_copied() ? 0 : shape.in * shape.in_area;
  return std::max(shape.unfolded_elements() + turned, in_vectors(shape.in) * bordered(shape.in_area, shape.padding));
}

/// Lists of products, barriers, buffers for a row: of all threads, and of each.
std::int64_t lists(const ConvolutionShape& shape) {
  return (32 << 10) + shape.threads * ((16 << 10) + 80 * shape.kernel());
}

/// What threads gather that compute a pointwise convolution of `channels` and `area`: what a stride leaves of an
/// image, and of half types the sums.
std::int64_t gathered(const ConvolutionShape& shape, std::int64_t channels, std::int64_t area) {
  if (!shape.is_pointwise()) return 0;
  const std::int64_t read = shape.stride > 1 ? in_vectors(shape.in) * shape.area * shape.element_bytes : 0;
  return shape.threads * (read + (shape.is_half() ? kSum * in_vectors(channels) * area : 0));
}

/// What a kernel of the other family takes beyond what the copies of a direct one do, or the direct one's scratch.
std::int64_t larger(std::int64_t direct, std::int64_t unfolding, std::int64_t copies) {
  return std::max(direct, unfolding - copies);
}

}  // namespace

bool takes_onednn(const ConvolutionShape& shape) {
  const bool strided_or_dilated = shape.stride > 1 || shape.dilation > 1;
  if (!strided_or_dilated && shape.batch < 16 && shape.is_pointwise() && shape.threads == 1) return false;
  return shape.groups > 1 || (shape.kernel_width > 3 && shape.kernel_height > 3) || shape.batch > 1 ||
         shape.batch * shape.in * shape.in_area > 20480;
}

std::int64_t blocked_input(const ConvolutionShape& shape) {
  if (!shape.is_copied()) return 0;
  // A picture is not padded, but as a matrix.
  const bool is_picture = shape.in <= kColours && !shape.is_pointwise();
  return shape.batch * (is_picture ? shape.in : in_vectors(shape.in)) * shape.in_area * shape.element_bytes;
}

std::int64_t blocked_input_gradient(const ConvolutionShape& shape) {
  if (!shape.is_copied()) return 0;
  return shape.batch * in_vectors(shape.in) * shape.in_area * shape.element_bytes;
}

std::int64_t blocked_result(const ConvolutionShape& shape) {
  if (!shape.is_copied()) return 0;
  return shape.batch * in_vectors(shape.out) * shape.area * shape.element_bytes;
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
  const std::int64_t sums = shape.is_half() ? kSum * shape.out * shape.area : 0;
  return lists(shape) + larger(gathered(shape, shape.out, shape.area),
                               shape.threads * (image_elements(shape) * shape.element_bytes + sums),
                               !shape.is_copied() ? 0 : blocked_input(shape) + blocked_weight(shape));
}

std::int64_t input_gradient_scratch(const ConvolutionShape& shape) {
  // Where patches overlap or leave gaps, each thread adds up a block of channels of an image with its border.
  const std::int64_t border = (shape.kernel_width + shape.stride) / 2 + 4,
                     collected = shape.stride > 1 ? shape.threads * kSum * kBlock * bordered(shape.in_area, border) : 0,
                     sums = shape.is_half() ? shape.threads * kSum * shape.in * shape.in_area : 0;
  return lists(shape) + larger(sums + std::max(collected, gathered(shape, shape.in, shape.in_area)),
                               sums + shape.threads * kSum * image_elements(shape),
                               !shape.is_copied() ? 0 : blocked_result(shape) + blocked_weight(shape));
}

std::int64_t weight_gradient_scratch(const ConvolutionShape& shape) {
  // Groups are divided among threads before images are.
  const std::int64_t parts =
      shape.groups == 1 ? shape.threads : std::min(shape.threads, divided_up(kVector * shape.threads, shape.groups));
  const std::int64_t one = is_depthwise(shape) ? in_vectors(shape.groups) * shape.kernel() : padded_groups(shape);
  std::int64_t direct = parts * kSum * one + gathered(shape, shape.out, shape.area);
  if (shape.is_half()) {
    const std::int64_t bordered_area = bordered(shape.in_area, shape.padding + 2);
    direct += shape.threads * (in_vectors(shape.in) * bordered_area + in_vectors(shape.out) * shape.area) *
              shape.element_bytes;
    if (shape.groups > 1) {
      direct += kSum * padded_groups(shape) +
                std::max(shape.threads, shape.groups) * kVector * (bordered_area + shape.area) * shape.element_bytes;
    }
  }
  return lists(shape) +
         larger(direct,
                shape.threads * (image_elements(shape) * shape.element_bytes + 4 * kSum * shape.weight_elements()),
                !shape.is_copied() ? 0 : blocked_input(shape) + blocked_result(shape));
}

}  // namespace stages::meta
