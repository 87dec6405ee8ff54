#include "stages/trace/onednn_half.h"

#include <algorithm>

namespace stages::meta {
namespace {

constexpr std::int64_t kVector = 16, kFloat = 4, kHalf = 2;
/// Of images of three channels, the widest of the weight's gradient.
constexpr std::int64_t kWidestOfImages = 24;

/// The threads over rows of the batch and blocks of channels.
struct ThreadSplit {
  std::int64_t rows = 1, out = 1, in = 1;
};

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

/// How oneDNN spreads the weight's gradient over threads: with the least traffic (its `balance`).
ThreadSplit split_of(const ConvolutionShape& shape, const TurnedImages& images, std::int64_t threads) {
  const std::int64_t rows = shape.batch * images.out_rows;
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const double in_bytes = kHalf * real(shape.batch * shape.in * images.in_rows * images.in_width),
               out_bytes = kHalf * real(shape.batch * shape.out * images.out_rows * images.out_width);
  const double by_weight = 0.5 * (in_bytes + out_bytes) / (kFloat * real(shape.weight_elements()));
  const double blocks_ratio = real(images.out_blocks) / real(images.in_blocks);
  const double in_cost = std::max(1 / blocks_ratio, 1.0) * (by_weight < 1 ? 4 : 1),
               out_cost = std::max(blocks_ratio, 1.0), weight_cost = std::max(by_weight, 1.0);
  const auto traffic = [&](const ThreadSplit& split) {
    const std::int64_t ins = divided_up(images.in_blocks, split.in), outs = divided_up(images.out_blocks, split.out);
    const double share = real(divided_up(rows, split.rows)) * real(shape.batch) / real(rows);
    return in_cost * share * real(ins * images.in_block * images.in_rows * images.in_width) /
               real(shape.stride * shape.stride) +
           out_cost * share * real(outs * kVector * images.out_rows * images.out_width) +
           weight_cost * real(outs * ins * shape.kernel_height * shape.kernel_width * images.in_block * kVector);
  };
  ThreadSplit best;
  for (std::int64_t parts = 1; parts <= std::min(threads, rows); ++parts) {
    for (std::int64_t out = 1; out <= std::min(threads / parts, images.out_blocks); ++out) {
      const ThreadSplit split = {parts, out, std::min(threads / parts / out, images.in_blocks)};
      if (traffic(split) <= traffic(best)) best = split;
    }
  }
  if (best.rows > threads / 2 && best.rows < threads) best.rows = std::min(rows, threads);
  return best;
}

/// What threads wait at for each other.
std::int64_t barrier_bytes(const ThreadSplit& split) {
  constexpr std::int64_t kBarrier = 4096, kAlways = 8580;
  const std::int64_t barriers =
      (split.out > 1 ? split.rows * split.in : 0) + (split.in > 1 ? split.rows * split.out : 0);
  return kAlways + (barriers > 0 ? kBarrier * (barriers + 1) : 0);
}

/// Products of unfolded images, and sums in float32 of each thread and of all.
std::int64_t unfolding_scratch(const ConvolutionShape& shape, bool channels_last, std::int64_t threads) {
  const std::int64_t active = std::min(threads, shape.batch), weight = shape.weight_elements();
  const std::int64_t turned = channels_last ? shape.in * shape.in_area : 0;
  return 2 * kFloat * weight * (1 + active) + active * (kHalf * (shape.unfolded_elements() + turned) + 256) + 1024;
}

/// What the matrix units of a processor that is not modelled take: near what is seen for patches.
std::int64_t matrix_units_scratch(const ConvolutionShape& shape, std::int64_t threads) {
  const std::int64_t weight = rounded_up(shape.out, kVector) * rounded_up(shape.in, kVector) * shape.kernel_height *
                              shape.kernel_width,
                     rows = 256 * shape.kernel_height * side_of(shape.in_area) * divided_up(shape.in, kVector);
  return kFloat * (8352 + weight + threads * (weight + rows + 512 + 52 * shape.out));
}

}  // namespace

std::int64_t paired_weight(const ConvolutionShape& shape) {
  return rounded_up(shape.out, kVector) * rounded_up(shape.in, shape.in <= 3 ? 2 : kVector) * shape.kernel_height *
         shape.kernel_width;
}

std::int64_t half_forward_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu) {
  std::int64_t bytes = channels_last ? 4096 + cpu.threads * list_bytes(shape) : 0;
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
  std::int64_t bytes = 4224 + cpu.threads * list_bytes(shape);
  if (shape.stride > 1 && cpu.processor.kernels >= Kernels::kAvx512Bf16)
    bytes = 16384 + cpu.threads * (8216 + kHalf * collected_image(shape));
  if (shape.is_pointwise()) bytes = std::max(bytes, cpu.threads * (kFloat * shape.in * shape.area + 640));
  return cpu.processor.is_modelled ? bytes : bytes + cpu.threads * kFloat * shape.in * shape.in_area;
}

std::int64_t half_weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu) {
  const TurnedImages images = turned(shape, channels_last);
  const std::int64_t weight =
      images.out_blocks * kVector * images.in_blocks * images.in_block * shape.kernel_height * shape.kernel_width;
  const std::int64_t halves = images.out_elements() + (images.turns_input ? images.in_elements() : 0);
  std::int64_t bytes = 0;
  const bool is_padded_image = shape.in <= 3 && !channels_last && shape.out % kVector != 0;
  if (is_padded_image || shape.kernel_width > (shape.in <= 3 ? kWidestOfImages : kWidestKernel)) {
    bytes = unfolding_scratch(shape, channels_last, cpu.threads);
  } else if (shape.is_pointwise()) {
    const std::int64_t parts =
        shape.stride > 1 ? split_of(shape, images, cpu.threads).rows : std::min(cpu.threads, shape.batch);
    const std::int64_t gathered = shape.stride > 1 ? shape.in * shape.area : 0;
    bytes =
        kFloat * weight * parts + cpu.threads * (kHalf * ((shape.in + shape.out) * shape.area + gathered) + 384) + 8576;
  } else {
    const ThreadSplit split = split_of(shape, images, cpu.threads);
    bytes = split.rows * (kFloat * weight + kHalf * halves) + barrier_bytes(split);
  }
  return cpu.processor.is_modelled ? bytes : std::max(bytes, matrix_units_scratch(shape, cpu.threads));
}

std::int64_t half_grouped_weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu) {
  if (!channels_last)
    return cpu.threads * (kHalf * shape.unfolded_elements() + kFloat * 3 * shape.weight_elements() + 128);
  ConvolutionShape group = shape;
  group.in /= shape.groups;
  group.out /= shape.groups;
  group.groups = 1;
  const TurnedImages images = turned(group, channels_last);
  const std::int64_t padded =
      rounded_up(group.out, kVector) * rounded_up(group.in, kVector) * shape.kernel_height * shape.kernel_width;
  const std::int64_t in = divided_up(group.in, kVector) * kVector * images.in_rows * images.in_width;
  const std::int64_t at_once = std::max<std::int64_t>(1, cpu.threads / shape.groups);
  return at_once * shape.groups * (kFloat * padded + kHalf * (in + images.out_elements())) + 8580;
}

}  // namespace stages::meta
