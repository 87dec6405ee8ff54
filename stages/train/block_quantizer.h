#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/train/block_parts.h"

namespace stages {

/// The number of elements per block, and the minimum number of elements in a parameter with
/// quantized state: the block size and min_8bit_size of bitsandbytes 0.50.
inline constexpr std::int64_t kQuantizedBlock = 256, kSmallestQuantized = 4096;

/// Returns the number of blocks for this many elements; the last block may be shorter.
std::int64_t quantized_blocks(std::int64_t elements);

/// Returns the 256 values of an 8-bit code in ascending order: the dynamic data type from Dettmers,
/// "8-Bit Approximations for Parallelism in Deep Learning" (2016), between -1 and 1 or between 0
/// and 1. Equals bitsandbytes' create_dynamic_map() computed with fused multiply-adds.
std::array<float, 256> dynamic_map(bool is_signed);

/// Stores numbers as 8-bit codes, with one float32 per block: the block's largest absolute value
/// (Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2022; bitsandbytes'
/// quantize_blockwise()). A code stands for the value of dynamic_map() nearest to number / absmax,
/// or, if two values are equally near, for the lower one. The absmax of a block of zeros is the
/// smallest normal float32.
///
/// Results do not depend on the number of threads. Allocates nothing and never waits for a GPU. On
/// the Meta device, computes nothing.
class BlockQuantizer {
 public:
  /// Memory for processing a limited number of elements at once: views of one block, laid out as in
  /// scratch_parts().
  struct Scratch {
    at::Tensor values, indices, codes, bounds, is_above, absmax, skipped;
  };
  static std::vector<BlockPart> scratch_parts(std::int64_t elements);

  /// The map is kept on `device`.
  BlockQuantizer(bool is_signed, at::Device device);
  /// Returns views of a block that starts with the parts from scratch_parts().
  static Scratch scratch_within(const at::Tensor& block, std::int64_t elements);

  /// Sets `moment`, a floating-point tensor of any layout, to the values that the codes stand for.
  /// `codes`, uint8, and `absmax`, float32, are vectors in the order of the moment's indices; their
  /// first element starts a block.
  void dequantize(const at::Tensor& codes, const at::Tensor& absmax, const at::Tensor& moment,
                  const Scratch& scratch) const;

  /// The inverse of dequantize(). If `skip`, a float32 scalar, is 1, `codes` and `absmax` keep
  /// their values.
  void quantize(const at::Tensor& moment, const at::Tensor& codes, const at::Tensor& absmax,
                const Scratch& scratch, const std::optional<at::Tensor>& skip) const;

 private:
  at::Tensor values_;  // values of the map, float32
  at::Tensor bounds_;  // float32; a number above a bound gets a higher code; the last is infinite
  at::Tensor lowest_;  // for each upper half of a float32, the lowest code of a number that has it
};

}  // namespace stages
