#include "stages/train/block_quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <torch/types.h>

namespace stages {

std::int64_t quantized_blocks(std::int64_t elements) {
  return (elements + kQuantizedBlock - 1) / kQuantizedBlock;
}

std::array<float, 256> dynamic_map(bool is_signed) {
  constexpr int kExponents = 7;
  std::array<float, 256> map{};
  auto next = map.begin();
  *next++ = 0;
  *next++ = 1;
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    // The centers of equal parts of the range from 0.1 to 1, computed like torch.linspace.
    const int parts = 1 << (is_signed ? exponent : exponent + 1);
    const float step = (1.0F - 0.1F) / static_cast<float>(parts);
    const auto boundary = [&](int i) {
      return i < (parts + 1) / 2 ? std::fma(step, static_cast<float>(i), 0.1F)
                                 : std::fma(-step, static_cast<float>(parts - i), 1.0F);
    };
    const auto scale = static_cast<float>(std::pow(10.0, exponent + 1 - kExponents));
    for (int i = 0; i < parts; ++i) {
      const float value = scale * ((boundary(i) + boundary(i + 1)) / 2);
      *next++ = value;
      if (is_signed) *next++ = -value;
    }
  }
  std::ranges::sort(map);
  return map;
}

namespace {

using Map = std::array<float, 256>;

/// Returns the thresholds above which a number gets the next code: the midpoints between the map's
/// values.
Map bounds_of(const Map& map) {
  Map bounds{};
  for (std::size_t i = 0; i + 1 < map.size(); ++i) bounds[i] = (map[i] + map[i + 1]) / 2;
  bounds.back() = std::numeric_limits<float>::infinity();
  return bounds;
}

/// Returns, for each upper half of a float32, the code of the lowest number with that half. There
/// is at most one bound between numbers with the same half, so their code is this one or the next.
std::vector<std::uint8_t> lowest_codes(const Map& bounds) {
  std::vector<std::uint8_t> codes;
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const bool is_negative = half >= 0x8000;
    const auto lowest = std::bit_cast<float>(half << 16 | (is_negative ? 0xffffU : 0U));
    codes.push_back(
        static_cast<std::uint8_t>(std::ranges::lower_bound(bounds, lowest) - bounds.begin()));
  }
  return codes;
}

/// Returns the numbers as a tensor on the device.
at::Tensor on_device(at::Device device, at::ScalarType type, auto& numbers) {
  const auto size = static_cast<std::int64_t>(numbers.size());
  at::Tensor tensor = torch::empty({size}, at::TensorOptions(type).device(device));
  if (!device.is_meta()) tensor.copy_(torch::from_blob(numbers.data(), {size}, type));
  return tensor;
}

}  // namespace

std::vector<BlockPart> BlockQuantizer::scratch_parts(std::int64_t elements) {
  const std::int64_t blocks = quantized_blocks(elements), padded = blocks * kQuantizedBlock;
  return {{{padded}, at::kFloat}, {{padded}, at::kLong}, {{padded}, at::kByte},
          {{padded}, at::kFloat}, {{padded}, at::kBool}, {{blocks}, at::kFloat},
          {{}, at::kBool}};
}

BlockQuantizer::Scratch BlockQuantizer::scratch_within(const at::Tensor& block,
                                                       std::int64_t elements) {
  const std::vector<at::Tensor> own = parts_within(block, scratch_parts(elements));
  return {own[0], own[1], own[2], own[3], own[4], own[5], own[6]};
}

BlockQuantizer::BlockQuantizer(bool is_signed, at::Device device) {
  Map map = dynamic_map(is_signed), bounds = bounds_of(map);
  std::vector<std::uint8_t> lowest = lowest_codes(bounds);
  values_ = on_device(device, at::kFloat, map);
  bounds_ = on_device(device, at::kFloat, bounds);
  lowest_ = on_device(device, at::kByte, lowest);
}

void BlockQuantizer::dequantize(const at::Tensor& codes, const at::Tensor& absmax,
                                const at::Tensor& moment, const Scratch& scratch) const {
  if (moment.is_meta()) return;
  const std::int64_t elements = codes.numel(), blocks = absmax.numel();
  const at::Tensor padded = scratch.values.narrow(0, 0, blocks * kQuantizedBlock);
  const at::Tensor indices = scratch.indices.narrow(0, 0, elements).copy_(codes);
  at::Tensor values = padded.narrow(0, 0, elements);
  at::take_out(values, values_, indices);
  padded.narrow(0, elements, padded.numel() - elements).zero_();
  padded.view({blocks, kQuantizedBlock}).mul_(absmax.view({blocks, 1}));
  moment.copy_(values.view(moment.sizes()));
}

void BlockQuantizer::quantize(const at::Tensor& moment, const at::Tensor& codes,
                              const at::Tensor& absmax, const Scratch& scratch,
                              const std::optional<at::Tensor>& skip) const {
  if (moment.is_meta()) return;
  const std::int64_t elements = codes.numel(), blocks = absmax.numel();
  const at::Tensor padded = scratch.values.narrow(0, 0, blocks * kQuantizedBlock);
  const at::Tensor values = padded.narrow(0, 0, elements);
  values.view(moment.sizes()).copy_(moment);
  padded.narrow(0, elements, padded.numel() - elements).zero_();
  at::Tensor bounds = scratch.bounds.narrow(0, 0, padded.numel());
  at::Tensor largest = scratch.absmax.narrow(0, 0, blocks);
  at::abs_out(bounds, padded);
  at::amax_out(largest, bounds.view({blocks, kQuantizedBlock}), 1);
  largest.clamp_min_(std::numeric_limits<float>::min());
  padded.view({blocks, kQuantizedBlock}).div_(largest.view({blocks, 1}));

  // Upper halves are signed 16-bit numbers: take() counts negative indices from the end.
  const at::Tensor indices = scratch.indices.narrow(0, 0, elements);
  indices.copy_(values.view(at::kShort).view({elements, 2}).select(1, 1));
  at::Tensor nearest = scratch.codes.narrow(0, 0, elements),
             is_above = scratch.is_above.narrow(0, 0, elements);
  at::take_out(nearest, lowest_, indices);
  indices.copy_(nearest);
  bounds = bounds.narrow(0, 0, elements);
  at::take_out(bounds, bounds_, indices);
  at::gt_out(is_above, values, bounds);
  nearest.add_(is_above.view(at::kByte));

  if (skip) scratch.skipped.copy_(*skip);
  const auto store = [&](at::Tensor to, const at::Tensor& from) {
    if (skip) at::where_out(to, scratch.skipped, to, from);
    else to.copy_(from);
  };
  store(codes, nearest);
  store(absmax, largest);
}

}  // namespace stages
