#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/train/block_parts.h"

namespace c10 {
struct Event;
}

namespace stages {

/// Tensors kept in host memory, in one block, and copied to their device together when needed
/// there:
///
///   HostBlock block({part_like(mean), part_like(square)}, device);      // zeros
///   const at::Tensor scratch = block.scratch();                         // device memory
///   const std::vector<at::Tensor> on_device = block.bring(scratch);
///   update(on_device);
///   block.put_back(scratch);
///
/// For a GPU, the host memory is pinned, and only wait() makes the host wait. For a CPU, it is a
/// second block of ordinary memory. In a dry run, the block is not traced and occupies no memory.
class HostBlock {
 public:
  /// Creates zero-filled tensors for `parts` (at least one), which can be brought to `device`.
  HostBlock(std::vector<BlockPart> parts, at::Device device);
  ~HostBlock();
  HostBlock(HostBlock&&) noexcept;
  HostBlock& operator=(HostBlock&&) noexcept;

  /// Returns the tensors in host memory; shared, not copied. While a copy of them is in use on the
  /// device, they keep their previous values.
  std::vector<at::Tensor> tensors() const { return parts_within(memory_, parts_); }
  /// Waits for the latest put_back(). Call this before the host reads or writes tensors().
  void wait() const;
  /// Allocates bytes() bytes of device memory for bring().
  at::Tensor scratch() const;
  std::int64_t bytes() const { return bytes_; }

  /// Copies all tensors to `scratch`, at least bytes() bytes of device memory, and returns views of
  /// it.
  std::vector<at::Tensor> bring(const at::Tensor& scratch) const;
  /// The inverse of bring(): copies the current contents of `scratch` back to the host.
  void put_back(const at::Tensor& scratch);

 private:
  at::Device device_;
  std::vector<BlockPart> parts_;
  std::int64_t bytes_;
  at::Tensor memory_;                 // host memory, as bytes
  std::unique_ptr<c10::Event> back_;  // recorded by the latest put_back() from a GPU
};

}  // namespace stages
