#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace c10 {
struct Event;
}

namespace stages {

/// Tensors of a device that are kept in host memory, in one block, and are copied to the device all
/// at once while they are used there:
///
///   HostBlock block({mean, square});                                    // zeros, alike
///   const at::Tensor scratch = block.scratch();                         // device memory
///   const std::vector<at::Tensor> on_device = block.bring(scratch);
///   update(on_device);
///   block.put_back(scratch);
///
/// For a GPU the host memory is pinned, and only wait() makes the host wait. For a CPU it is a
/// second block of ordinary memory. In a dry run the block is invisible to the trace and the
/// machine.
class HostBlock {
 public:
  /// Zeros with the shapes, types and memory formats of `like`: at least one tensor, all on one
  /// device.
  explicit HostBlock(const std::vector<at::Tensor>& like);
  ~HostBlock();
  HostBlock(HostBlock&&) noexcept;
  HostBlock& operator=(HostBlock&&) noexcept;

  /// The tensors in host memory; shared, not copied. While they are on the device they keep their
  /// previous values.
  std::vector<at::Tensor> tensors() const { return within(memory_); }
  /// Waits for the latest put_back(). Call it before the host reads or writes tensors().
  void wait() const;
  /// Allocates device memory of bytes() bytes for bring().
  at::Tensor scratch() const;
  std::int64_t bytes() const { return bytes_; }

  /// Copies all tensors to `scratch`, device memory of at least bytes() bytes, and returns views of
  /// it.
  std::vector<at::Tensor> bring(const at::Tensor& scratch) const;
  /// The inverse: copies the current contents of `scratch` back to the host.
  void put_back(const at::Tensor& scratch);

 private:
  /// Where a tensor lies in the block.
  struct Place {
    std::int64_t offset, bytes;
    std::vector<std::int64_t> sizes, strides;
    at::ScalarType type;
  };
  std::vector<at::Tensor> within(const at::Tensor& block) const;

  at::Device device_;
  std::int64_t bytes_ = 0;
  std::vector<Place> places_;
  at::Tensor memory_;                 // host memory, as bytes
  std::unique_ptr<c10::Event> back_;  // records the latest put_back() of a GPU
};

}  // namespace stages
