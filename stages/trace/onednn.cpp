#include "stages/trace/onednn.h"

#include <algorithm>
#include <cmath>

namespace stages::meta {
namespace {

constexpr std::int64_t kFloatBytes = 4;

bool is_depthwise(const ConvolutionShape& shape) { return shape.groups == shape.in && shape.groups == shape.out; }
bool is_grouped(const ConvolutionShape& shape) { return shape.groups > 1 && !is_depthwise(shape); }
bool has_zmm(const Processor& processor) { return processor.kernels >= Kernels::kAvx512; }

/// Over how many parts of the batch oneDNN spreads the weight's gradient: the split of its threads over batch and
/// channels with the least traffic, if no other computes much more evenly (its `balance`).
/// Of larger images in the ordinary layout it spreads rows in place of images.
std::int64_t batch_parts(const ConvolutionShape& shape, bool channels_last, std::int64_t threads) {
  constexpr std::int64_t kVector = 16, kFewRows = 9;
  const bool by_rows = !channels_last && shape.dilation == 1 && side_of(shape.area) > kFewRows;
  const std::int64_t in_rows = by_rows ? side_of(shape.in_area) : 1, out_rows = by_rows ? side_of(shape.area) : 1;
  const std::int64_t most_parts = std::min(threads, shape.batch * std::max<std::int64_t>(1, out_rows / kFewRows));
  const bool is_first = shape.in <= 3;
  const std::int64_t in_block = is_first ? shape.in : kVector;
  const std::int64_t in_blocks = is_first ? 1 : divided_up(shape.in, kVector),
                     out_blocks = divided_up(shape.out, kVector);
  struct Split {
    std::int64_t batch = 1, out = 1, in = 1;
  };
  const auto traffic = [&](const Split& split) {
    const std::int64_t ins = divided_up(in_blocks, split.in), outs = divided_up(out_blocks, split.out);
    return divided_up(shape.batch * in_rows, split.batch) * ins * in_block * (shape.in_area / in_rows) /
               (shape.stride * shape.stride) +
           divided_up(shape.batch * out_rows, split.batch) * outs * kVector * (shape.area / out_rows) +
           8 * outs * ins * shape.kernel_height * shape.kernel_width * in_block * kVector;
  };
  const auto work = [&](const Split& split) {
    return divided_up(shape.batch * out_rows, split.batch) * divided_up(in_blocks, split.in) *
           divided_up(out_blocks, split.out);
  };
  const auto for_each_split = [&](auto look) {
    for (std::int64_t batch = 1; batch <= most_parts; ++batch) {
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
  if (best.batch > threads / 2 && best.batch < threads) best.batch = most_parts;
  return best.batch;
}

/// What the threads of the matrix products take that unfold images, each its own.
std::int64_t unfolding_scratch(const ConvolutionShape& shape, std::int64_t threads) {
  return threads * shape.unfolded_elements() + 64;
}

/// AVX2's kernels of the weight's gradient spread the batch over threads that find no blocks of channels.
std::int64_t batch_parts_avx2(const ConvolutionShape& shape, const Cpu& cpu) {
  if (shape.is_pointwise()) return std::min(cpu.threads, shape.batch) + (cpu.threads > 1 ? 1 : 0);
  const std::int64_t blocks =
      divided_up(shape.in, cpu.processor.vector()) * divided_up(shape.out, cpu.processor.vector());
  return divided_up(cpu.threads, blocks);
}

}  // namespace

std::int64_t side_of(std::int64_t area) {
  return static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(area))));
}

std::int64_t collected_image(const ConvolutionShape& shape) {
  const std::int64_t side = side_of(shape.in_area);
  const bool is_patch = !shape.is_pointwise() && shape.stride >= shape.kernel_width;
  return 16 * (is_patch ? 16 * side : (side + 10) * (side + 10));
}

std::int64_t list_bytes(const ConvolutionShape& shape) {
  constexpr std::int64_t kOfOne = 40, kPage = 4096;
  return rounded_up(kOfOne * shape.kernel_height * shape.kernel_width, kPage) + 24;
}

bool takes_onednn(const ConvolutionShape& shape, std::int64_t threads) {
  const bool strided_or_dilated = shape.stride > 1 || shape.dilation > 1;
  if (!strided_or_dilated && shape.batch < 16 && shape.is_pointwise() && threads == 1) return false;
  return shape.groups > 1 || (shape.kernel_width > 3 && shape.kernel_height > 3) || shape.batch > 1 ||
         shape.batch * shape.in * shape.in_area > 20480;
}

std::int64_t blocked_channels(std::int64_t channels, const Processor& processor) {
  return rounded_up(channels, processor.vector());
}

std::int64_t blocked_weight(const ConvolutionShape& shape, bool channels_last, const Processor& processor) {
  const std::int64_t vector = processor.vector(), kernel = shape.kernel_height * shape.kernel_width;
  if (shape.groups > 1) {
    // AVX2 computes groups of channels_last images with padded blocks.
    const bool is_padded = channels_last && is_grouped(shape) && !has_zmm(processor);
    return is_padded ? shape.groups * rounded_up(shape.out / shape.groups, vector) * (shape.in / shape.groups) * kernel
                     : shape.weight_elements();
  }
  // Of channels_last images, kernels of AVX-512 take up to four vectors of results at once, and those of AVX2 three.
  const std::int64_t vectors = !channels_last || shape.out <= 2 * 16 ? 1 : has_zmm(processor) ? 4 : 3;
  const std::int64_t in = shape.in <= 3 || channels_last ? shape.in : rounded_up(shape.in, vector);
  return rounded_up(shape.out, vectors * vector) * in * kernel;
}

std::int64_t turned_weight(const ConvolutionShape& shape, bool channels_last, const Processor& processor) {
  if (shape.groups > 1) return blocked_weight(shape, channels_last, processor);
  const std::int64_t vectors = channels_last && shape.in > 32 && !has_zmm(processor) ? 3 : 1;
  const std::int64_t out = channels_last ? shape.out : rounded_up(shape.out, processor.vector());
  return out * rounded_up(shape.in, vectors * processor.vector()) * shape.kernel_height * shape.kernel_width;
}

bool unfolds_forward(const ConvolutionShape& shape, const Processor& processor) {
  if (is_depthwise(shape)) return false;
  if (is_grouped(shape)) {
    const auto is_whole = [&](std::int64_t channels) { return channels / shape.groups % processor.vector() == 0; };
    return !has_zmm(processor) && !(is_whole(shape.in) && is_whole(shape.out));
  }
  return !has_zmm(processor) && shape.kernel_width > kWidestKernel / 2;
}

bool unfolds_input_gradient(const ConvolutionShape& shape, const Processor& processor) {
  if (is_depthwise(shape)) return false;
  return processor.kernels < Kernels::kAvx2 || (is_grouped(shape) && unfolds_forward(shape, processor));
}

bool unfolds_weight_gradient(const ConvolutionShape& shape, const Processor& processor) {
  if (is_depthwise(shape)) return false;
  return processor.kernels < Kernels::kAvx2 || shape.kernel_width > kWidestKernel || is_grouped(shape);
}

std::int64_t forward_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu) {
  if (channels_last) {
    if (shape.groups > 1 && has_zmm(cpu.processor)) return 0;
    const std::int64_t unfolded = cpu.processor.kernels < Kernels::kAvx2 ? unfolding_scratch(shape, cpu.threads) : 0;
    return std::max(1024 + cpu.threads * list_bytes(shape) / kFloatBytes, unfolded);
  }
  if (unfolds_forward(shape, cpu.processor)) return unfolding_scratch(shape, cpu.threads);
  if (shape.groups > 1) return 0;
  // A pointwise convolution with a stride first gathers what it reads.
  if (shape.is_pointwise() && shape.stride > 1) return cpu.threads * shape.in * shape.area + 32;
  return 0;
}

std::int64_t input_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu) {
  if (unfolds_input_gradient(shape, cpu.processor) && !(channels_last && cpu.processor.kernels >= Kernels::kAvx2))
    return unfolding_scratch(shape, cpu.threads);
  if (shape.groups > 1)
    return channels_last && !has_zmm(cpu.processor) ? 1056 + cpu.threads * list_bytes(shape) / kFloatBytes : 0;
  if (shape.stride > 1) return 3072 + cpu.threads * (list_bytes(shape) / kFloatBytes + collected_image(shape));
  return channels_last ? 1056 + cpu.threads * list_bytes(shape) / kFloatBytes : 0;
}

std::int64_t weight_gradient_scratch(const ConvolutionShape& shape, bool channels_last, const Cpu& cpu) {
  const std::int64_t weight = shape.weight_elements();
  if (unfolds_weight_gradient(shape, cpu.processor)) {
    if (is_grouped(shape) && channels_last && cpu.processor.kernels >= Kernels::kAvx2) return 0;
    const std::int64_t turned = channels_last ? shape.in / shape.groups * shape.in_area : 0;
    const std::int64_t active = shape.batch == 1 && shape.groups == 1 ? 1 : cpu.threads;
    return active * (shape.unfolded_elements() + turned + 4 * weight) + 64;
  }
  if (is_depthwise(shape)) return 0;
  constexpr std::int64_t kReduction = 2144;
  std::int64_t scratch = 0;
  if (shape.is_pointwise() && shape.stride > 1 && !channels_last) scratch = cpu.threads * shape.in * shape.area + 32;
  const std::int64_t parts =
      has_zmm(cpu.processor) ? batch_parts(shape, channels_last, cpu.threads) : batch_parts_avx2(shape, cpu);
  if (parts > 1) scratch += (parts - 1) * blocked_weight(shape, false, cpu.processor) + kReduction;
  return scratch;
}

std::int64_t channels_last_weight_gradient(const ConvolutionShape& shape, const Processor& processor) {
  if (shape.groups == 1) return blocked_weight(shape, /*channels_last=*/false, processor);
  if (!is_grouped(shape)) return shape.weight_elements();
  return shape.groups * rounded_up(shape.out / shape.groups, processor.vector()) *
         rounded_up(shape.in / shape.groups, processor.vector()) * shape.kernel_height * shape.kernel_width;
}

std::int64_t forward_margin(const ConvolutionShape& shape, const Cpu& cpu) {
  // The list of products twice.
  return (8192 + cpu.threads * list_bytes(shape)) / kFloatBytes;
}

std::int64_t input_gradient_margin(const ConvolutionShape& shape, const Cpu& cpu) {
  const std::int64_t out = rounded_up(shape.out, 16), in = rounded_up(shape.in, 16);
  // Channels in up to four vectors at once, and where there is a stride, what each thread collects.
  const std::int64_t padding = (rounded_up(in, 64) - in) * out * shape.kernel_height * shape.kernel_width;
  const std::int64_t collected = shape.stride > 1 ? cpu.threads * 64 * shape.kernel_width * out : 0;
  return std::max<std::int64_t>(shape.out % 16 == 0 ? 0 : padding, collected) + 1024;
}

std::int64_t weight_gradient_margin(const ConvolutionShape& shape, bool is_half, const Cpu& cpu) {
  const bool may_be_grouped =
      shape.stride > 1 || shape.kernel_width > 3 || side_of(shape.in_area) <= shape.kernel_width;
  if (is_depthwise(shape) && may_be_grouped) {
    // As groups of whole vectors; of half types with sums in float32 and turned images.
    const std::int64_t padded = shape.groups * 16 * 16 * shape.kernel_height * shape.kernel_width;
    return is_half ? 3 * padded + 64 * shape.groups * shape.in_area : padded;
  }
  const std::int64_t image = shape.in <= 3 && shape.is_pointwise() ? shape.batch * 16 * shape.in_area : 0;
  return image + 1024 + 1024 * cpu.threads;
}

std::int64_t float_product_scratch(std::int64_t inner, const Cpu& cpu) {
  if (cpu.processor.kernels < Kernels::kAvx512) return 0;
  constexpr std::int64_t kColumns = 64, kGap = 3, kAlignment = 16;
  const std::int64_t strip = inner <= 512 ? rounded_up(inner, 16) : inner <= 1024 ? 512 : 1024;
  return cpu.threads * (kColumns * (strip + kGap) + kAlignment) * 4;
}

}  // namespace stages::meta
