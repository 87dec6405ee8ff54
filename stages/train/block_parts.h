#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// The shape and type of a tensor in a block of memory.
struct BlockPart {
  std::vector<std::int64_t> sizes;
  at::ScalarType type;
  std::vector<std::int64_t> strides = {};  ///< empty: contiguous
};

/// Returns a part with the tensor's shape, type and layout. A tensor that is not dense becomes
/// contiguous.
BlockPart part_like(const at::Tensor& tensor);

/// Returns the part's strides; computes them if the part is contiguous.
std::vector<std::int64_t> strides_of(const BlockPart& part);

/// Returns the number of bytes needed to store the parts one after another, each aligned.
std::int64_t bytes_of(const std::vector<BlockPart>& parts);

/// Returns the parts as views of `block`, a tensor of bytes. Allocates nothing.
std::vector<at::Tensor> parts_within(const at::Tensor& block, const std::vector<BlockPart>& parts);

}  // namespace stages
