#include "stages/trace/onednn.h"

#include <algorithm>
#include <cmath>

namespace stages::meta {
namespace {

constexpr std::int64_t kVector = 16;
/// Wider ones have no kernel for the weight's gradient but the unfolding one.
constexpr std::int64_t kWidestKernel = 14;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return divided_up(a, b) * b; }

bool is_depthwise(const ConvolutionShape& shape) { return shape.groups == shape.in && shape.groups == shape.out; }
bool is_grouped(const ConvolutionShape& shape) { return shape.groups > 1 && !is_depthwise(shape); }
bool is_pointwise(const ConvolutionShape& shape) { return shape.kernel_height == 1 && shape.kernel_width == 1; }

/// Over how many parts of the batch oneDNN spreads the weight's gradient: the split of its threads over batch and
/// channels with the least traffic, if no other computes much more evenly (its `balance`).
std::int64_t batch_parts(const ConvolutionShape& shape, std::int64_t threads) {
  const bool is_first = shape.in <= 3;
  const std::int64_t in_block = is_first ? shape.in : kVector;
  const std::int64_t in_blocks = is_first ? 1 : divided_up(shape.in, kVector),
                     out_blocks = divided_up(shape.out, kVector);
  struct Split {
    std::int64_t batch = 1, out = 1, in = 1;
  };
  const auto traffic = [&](const Split& split) {
    const std::int64_t rows = divided_up(shape.batch, split.batch), ins = divided_up(in_blocks, split.in),
                       outs = divided_up(out_blocks, split.out);
    return rows * ins * in_block * shape.in_area / (shape.stride * shape.stride) + rows * outs * kVector * shape.area +
           8 * outs * ins * shape.kernel_height * shape.kernel_width * in_block * kVector;
  };
  const auto work = [&](const Split& split) {
    return divided_up(shape.batch, split.batch) * divided_up(in_blocks, split.in) * divided_up(out_blocks, split.out);
  };
  const auto for_each_split = [&](auto look) {
    for (std::int64_t batch = 1; batch <= std::min(threads, shape.batch); ++batch) {
      const std::int64_t rest = threads / batch;
      for (std::int64_t out = 1; out <= std::min(rest, out_blocks); ++out)
        look(Split{batch, out, std::min(rest / out, in_blocks)});
    }
  };
  Split best;
  std::int64_t least = traffic(best);
  for_each_split([&](const Split& split) {
    if (traffic(split) > least) return;
    best = split;
    least = traffic(split);
  });
  std::int64_t least_work = work(best);
  for_each_split([&](const Split& split) {
    const bool is_as_even = work(split) <= least_work && 10 * traffic(split) < 11 * least;
    const bool is_much_evener = 4 * work(split) <= 3 * least_work;
    if (!is_as_even && !is_much_evener) return;
    best = split;
    least_work = work(split);
  });
  if (best.batch > threads / 2 && best.batch < threads) best.batch = std::min(shape.batch, threads);
  return best.batch;
}

}  // namespace

bool takes_onednn(const ConvolutionShape& shape, bool strided_or_dilated, std::int64_t threads) {
  if (!strided_or_dilated && shape.batch < 16 && is_pointwise(shape) && threads == 1) return false;
  return shape.groups > 1 || (shape.kernel_width > 3 && shape.kernel_height > 3) || shape.batch > 1 ||
         shape.batch * shape.in * shape.in_area > 20480;
}

std::int64_t blocked_channels(std::int64_t channels) { return rounded_up(channels, kVector); }

std::int64_t blocked_weight(const ConvolutionShape& shape, bool channels_last) {
  if (shape.groups > 1) return shape.weight_elements();
  const std::int64_t wide = channels_last && shape.out > 2 * kVector ? 4 * kVector : kVector;
  const std::int64_t in = shape.in <= 3 ? shape.in : channels_last ? shape.in : blocked_channels(shape.in);
  return rounded_up(shape.out, wide) * in * shape.kernel_height * shape.kernel_width;
}

bool unfolds(const ConvolutionShape& shape) { return shape.kernel_width > kWidestKernel || is_grouped(shape); }

std::int64_t forward_scratch(const ConvolutionShape& shape, bool channels_last, std::int64_t threads) {
  if (shape.groups > 1) return 0;
  if (channels_last) return 1024 + 1030 * threads;
  // A pointwise convolution with a stride first gathers what it reads.
  if (is_pointwise(shape) && shape.stride > 1) return threads * shape.in * shape.area + 32;
  return 0;
}

std::int64_t input_gradient_scratch(const ConvolutionShape& shape, bool channels_last, std::int64_t threads) {
  if (shape.groups > 1) return 0;
  if (channels_last) return 1056 + 1030 * threads;
  return shape.stride > 1 ? 3072 + 10246 * threads : 0;
}

std::int64_t weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, std::int64_t threads) {
  const std::int64_t weight = shape.weight_elements();
  if (unfolds(shape)) {
    if (is_grouped(shape) && channels_last) return 0;
    const std::int64_t of_group = shape.in / shape.groups;
    const std::int64_t unfolded = of_group * shape.kernel_height * shape.kernel_width * shape.area;
    const std::int64_t turned = channels_last ? of_group * shape.in_area : 0;
    const std::int64_t active = shape.batch == 1 && shape.groups == 1 ? 1 : threads;
    return active * (unfolded + turned + 4 * weight) + 64;
  }
  if (is_depthwise(shape)) return 0;
  std::int64_t scratch = 0;
  if (is_pointwise(shape) && shape.stride > 1 && !channels_last) scratch = threads * shape.in * shape.area + 32;
  const std::int64_t parts = batch_parts(shape, threads);
  if (parts > 1) scratch += (parts - 1) * blocked_weight(shape, false) + 2144;
  return scratch;
}

std::int64_t channels_last_weight_gradient(const ConvolutionShape& shape) {
  if (!is_grouped(shape)) return shape.weight_elements();
  return shape.groups * rounded_up(shape.out / shape.groups, kVector) * rounded_up(shape.in / shape.groups, kVector) *
         shape.kernel_height * shape.kernel_width;
}

std::int64_t padded_weight(const ConvolutionShape& shape) {
  return rounded_up(shape.out, kVector) * rounded_up(shape.in, kVector) * shape.kernel_height * shape.kernel_width;
}

std::int64_t half_forward_scratch(const ConvolutionShape& shape, std::int64_t threads) {
  // The weight with channels in fours, and for each thread the image unrolled along the kernel's rows.
  const std::int64_t weight =
      shape.out * rounded_up(shape.in / shape.groups, 4) * shape.kernel_height * shape.kernel_width / 2;
  return 5120 + weight + threads * (shape.kernel_width * shape.in_area * 17 / 10 + 8);
}

std::int64_t half_weight_gradient_scratch(const ConvolutionShape& shape, std::int64_t threads) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(shape.in_area))));
  const std::int64_t rows = 256 * shape.kernel_height * side * divided_up(shape.in, kVector);
  return 8352 + threads * (padded_weight(shape) + rows + 512 + 52 * shape.out);
}

}  // namespace stages::meta
