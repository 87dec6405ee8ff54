#include "stages/trace/onednn_half.h"

#include <algorithm>
#include <cmath>

namespace stages::meta {
namespace {

constexpr std::int64_t kVector = 16, kFloat = 4, kHalf = 2;
/// Wider ones are matrix products of unfolded images, and of an image of three channels in the weight's gradient still
/// wider ones.
constexpr std::int64_t kWidestKernel = 14, kWidestOfImages = 24;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return divided_up(a, b) * b; }
std::int64_t side_of(std::int64_t area) {
  return static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(area))));
}

/// The images and the weight as the kernel of the weight's gradient reads them.
struct TurnedImages {
  std::int64_t in_block, in_blocks, out_blocks;
  std::int64_t in_rows, in_width;    ///< with room for the padding between rows
  std::int64_t out_rows, out_width;  ///< in pairs
  bool turns_input;

  std::int64_t in_elements() const { return in_blocks * in_block * in_rows * in_width; }
  std::int64_t out_elements() const { return out_blocks * kVector * out_rows * out_width; }
};

TurnedImages turned(const ConvolutionShape& shape, bool channels_last) {
  const bool is_image = shape.in <= 3;
  const std::int64_t in_side = side_of(shape.in_area), side = side_of(shape.area);
  const bool turns_input = !is_image || channels_last;
  const std::int64_t room = rounded_up(shape.padding + 1, 2);
  const std::int64_t width = rounded_up(divided_up(in_side, shape.stride) + room, 2) * shape.stride;
  return {.in_block = is_image ? shape.in : kVector,
          .in_blocks = is_image ? 1 : divided_up(shape.in, kVector),
          .out_blocks = divided_up(shape.out, kVector),
          .in_rows = in_side,
          .in_width = turns_input ? width : in_side,
          .out_rows = side,
          .out_width = rounded_up(side, 2),
          .turns_input = turns_input};
}

/// Over how many parts of the batch's rows oneDNN spreads the weight's gradient: the split of its threads over rows and
/// channels with the least traffic (its `balance`).
std::int64_t row_parts(const ConvolutionShape& shape, const TurnedImages& images, std::int64_t threads) {
  const std::int64_t rows = shape.batch * images.out_rows;
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const double in_bytes = kHalf * real(shape.batch * shape.in * images.in_rows * images.in_width),
               out_bytes = kHalf * real(shape.batch * shape.out * images.out_rows * images.out_width);
  const double by_weight = 0.5 * (in_bytes + out_bytes) / (kFloat * real(shape.weight_elements()));
  const double blocks_ratio = real(images.out_blocks) / real(images.in_blocks);
  const double in_cost = std::max(1 / blocks_ratio, 1.0) * (by_weight < 1 ? 4 : 1),
               out_cost = std::max(blocks_ratio, 1.0), weight_cost = std::max(by_weight, 1.0);
  const auto traffic = [&](std::int64_t parts, std::int64_t out_parts, std::int64_t in_parts) {
    const std::int64_t ins = divided_up(images.in_blocks, in_parts), outs = divided_up(images.out_blocks, out_parts);
    const double share = real(divided_up(rows, parts)) * real(shape.batch) / real(rows);
    return in_cost * share * real(ins * images.in_block * images.in_rows * images.in_width) /
               real(shape.stride * shape.stride) +
           out_cost * share * real(outs * kVector * images.out_rows * images.out_width) +
           weight_cost * real(outs * ins * shape.kernel_height * shape.kernel_width * images.in_block * kVector);
  };
  std::int64_t best = 1;
  double least = traffic(1, 1, 1);
  for (std::int64_t parts = 1; parts <= std::min(threads, rows); ++parts) {
    for (std::int64_t out_parts = 1; out_parts <= std::min(threads / parts, images.out_blocks); ++out_parts) {
      const std::int64_t in_parts = std::min(threads / parts / out_parts, images.in_blocks);
      const double cost = traffic(parts, out_parts, in_parts);
      if (cost > least) continue;
      least = cost;
      best = parts;
    }
  }
  return best > threads / 2 && best < threads ? std::min(rows, threads) : best;
}

/// Products of unfolded images with sums of `sums` elements, each thread its own.
std::int64_t unfolding_scratch(const ConvolutionShape& shape, std::int64_t sums, std::int64_t threads) {
  const std::int64_t kernel = shape.in * shape.kernel_height * shape.kernel_width;
  return threads * (std::max(shape.area, kVector) * (kHalf * kernel + kFloat * shape.out) + kFloat * sums) + 256;
}

/// The same on the matrix units of a processor that is not modelled: near what they take for patches.
std::int64_t matrix_units_scratch(const ConvolutionShape& shape, std::int64_t threads) {
  const std::int64_t weight = rounded_up(shape.out, kVector) * rounded_up(shape.in, kVector) * shape.kernel_height *
                              shape.kernel_width,
                     rows = 256 * shape.kernel_height * side_of(shape.in_area) * divided_up(shape.in, kVector);
  return kFloat * (8352 + weight + threads * (weight + rows + 512 + 52 * shape.out));
}

}  // namespace

std::int64_t paired_weight(const ConvolutionShape& shape) {
  return shape.out * rounded_up(shape.in, shape.in <= 3 ? 2 : kVector) * shape.kernel_height * shape.kernel_width;
}

std::int64_t half_forward_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu) {
  std::int64_t bytes = channels_last ? kFloat * (1024 + 1030 * cpu.threads) : 0;
  if (shape.kernel_width > kWidestKernel) bytes = std::max(bytes, unfolding_scratch(shape, 0, cpu.threads));
  if (shape.is_pointwise()) {
    const std::int64_t gathered = shape.stride > 1 ? kHalf * shape.in * shape.area : 0;
    bytes = std::max(bytes, cpu.threads * (kFloat * shape.out * shape.area + gathered + 640));
  }
  if (cpu.processor.is_modelled) return bytes;
  // The weight with channels in fours, and for each thread the image unrolled along the kernel's rows.
  const std::int64_t weight = shape.out * rounded_up(shape.in, 4) * shape.kernel_height * shape.kernel_width / 2;
  return std::max(bytes, kFloat * (5120 + weight + cpu.threads * (shape.kernel_width * shape.in_area * 17 / 10 + 8)));
}

std::int64_t half_input_gradient_scratch(const ConvolutionShape& shape, const Cpu& cpu) {
  std::int64_t bytes = kFloat * (shape.stride > 1 ? 3072 + 10246 * cpu.threads : 1056 + 1030 * cpu.threads);
  if (shape.is_pointwise()) bytes = std::max(bytes, cpu.threads * (kFloat * shape.in * shape.area + 640));
  return cpu.processor.is_modelled ? bytes : bytes + cpu.threads * kFloat * shape.in * shape.in_area;
}

std::int64_t half_weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu) {
  const std::int64_t weight = rounded_up(shape.out, kVector) * rounded_up(shape.in, shape.in <= 3 ? 1 : kVector) *
                              shape.kernel_height * shape.kernel_width;
  const std::int64_t barriers = 4484 + 6144 * cpu.threads;
  std::int64_t bytes = 0;
  if (shape.kernel_width > (shape.in <= 3 ? kWidestOfImages : kWidestKernel)) {
    const std::int64_t sums = 3 * shape.weight_elements() + (channels_last ? shape.in * shape.in_area : 0);
    bytes = unfolding_scratch(shape, sums, cpu.threads) + 65536 * cpu.threads;
  } else {
    const TurnedImages images = turned(shape, channels_last);
    const std::int64_t halves = images.out_elements() + (images.turns_input ? images.in_elements() : 0);
    bytes = row_parts(shape, images, cpu.threads) * (kFloat * weight + kHalf * halves) + barriers;
  }
  return cpu.processor.is_modelled ? bytes : std::max(bytes, matrix_units_scratch(shape, cpu.threads));
}

bool takes_onednn(const ProductShape& shape) {
  constexpr std::int64_t kSmallest = 16 * 16 * 16;
  return shape.batch * shape.rows * shape.inner * shape.columns > kSmallest;
}

std::int64_t product_scratch(const ProductShape& shape, const Cpu& cpu) {
  // Without instructions for bfloat16, the sums of each product; else of the blocks that a thread works on.
  const std::int64_t whole = std::min(cpu.threads, shape.batch) * kFloat * shape.rows * shape.columns + 128;
  if (cpu.processor.kernels == Kernels::kAvx512 && cpu.processor.is_modelled) return whole;
  const std::int64_t rows = std::min<std::int64_t>(rounded_up(shape.rows, 32), shape.is_turned ? 512 : 256),
                     inner = rounded_up(shape.inner, 32), columns = 64;
  const std::int64_t factors = kHalf * inner * (columns + (shape.is_turned ? rows : 0)),
                     sums = kFloat * rows * columns * (shape.is_turned ? 2 : 1);
  const std::int64_t blocks = cpu.threads * (factors + sums);
  return cpu.processor.is_modelled ? blocks : blocks + whole;
}

}  // namespace stages::meta
