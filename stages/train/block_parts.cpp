#include "stages/train/block_parts.h"

#include <c10/util/strides.h>
#include <torch/types.h>

namespace stages {
namespace {

constexpr std::int64_t kPartAlignment = 64;  // in bytes; no kernel uses wider vectors

std::int64_t bytes_of_part(const BlockPart& part) {
  std::int64_t elements = 1;
  for (const std::int64_t size : part.sizes) elements *= size;
  const auto bytes = elements * static_cast<std::int64_t>(c10::elementSize(part.type));
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

}  // namespace

BlockPart part_like(const at::Tensor& tensor) {
  BlockPart part{tensor.sizes().vec(), tensor.scalar_type()};
  if (tensor.is_non_overlapping_and_dense()) part.strides = tensor.strides().vec();
  return part;
}

std::vector<std::int64_t> strides_of(const BlockPart& part) {
  if (!part.strides.empty()) return part.strides;
  const auto strides = c10::contiguous_strides(part.sizes);
  return {strides.begin(), strides.end()};
}

std::int64_t bytes_of(const std::vector<BlockPart>& parts) {
  std::int64_t bytes = 0;
  for (const BlockPart& part : parts) bytes += bytes_of_part(part);
  return bytes;
}

std::vector<at::Tensor> parts_within(const at::Tensor& block, const std::vector<BlockPart>& parts) {
  std::vector<at::Tensor> tensors;
  at::Tensor typed;
  std::int64_t offset = 0;
  for (const BlockPart& part : parts) {
    if (!typed.defined() || typed.scalar_type() != part.type) typed = block.view(part.type);
    const auto size = static_cast<std::int64_t>(typed.element_size());
    const std::int64_t begin = typed.storage_offset() + offset / size;
    tensors.push_back(typed.as_strided(part.sizes, strides_of(part), begin));
    offset += bytes_of_part(part);
  }
  return tensors;
}

}  // namespace stages
