#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace c10 {
struct Event;
}

namespace stages {

/// Tensors of a device that lie in the host's memory, side by side, and come to the device all at
/// once while they are used there:
///
///   HostBlock block({mean, square});                                    // zeros, alike
///   const at::Tensor scratch = block.scratch();                         // of the device's memory
///   const std::vector<at::Tensor> on_device = block.bring(scratch);
///   update(on_device);
///   block.put_back(scratch);
///
/// For a GPU the host's memory is pinned, and nothing here makes the host wait but wait(). For a
/// CPU it is memory beside that of the tensors. In a dry run neither the trace nor the machine
/// knows of it.
class HostBlock {
 public:
  /// Zeros in the shapes, types and memory formats of `like`: at least one, all on one device.
  explicit HostBlock(const std::vector<at::Tensor>& like);
  ~HostBlock();
  HostBlock(HostBlock&&) noexcept;
  HostBlock& operator=(HostBlock&&) noexcept;

  /// What lies in the host's memory. Shared, not copied; while it is brought, as it was before.
  std::vector<at::Tensor> tensors() const { return within(memory_); }
  /// Until the latest put_back() is done, before the host reads or writes tensors().
  void wait() const;
  /// Memory of the device for bring(), of bytes().
  at::Tensor scratch() const;
  std::int64_t bytes() const { return bytes_; }

  /// All of them as copies in `scratch`, bytes on the device, of which there are bytes() or more.
  std::vector<at::Tensor> bring(const at::Tensor& scratch) const;
  /// The inverse: what is in `scratch` by now.
  void put_back(const at::Tensor& scratch);

 private:
  /// Where one lies in the block.
  struct Place {
    std::int64_t offset, bytes;
    std::vector<std::int64_t> sizes, strides;
    at::ScalarType type;
  };
  std::vector<at::Tensor> within(const at::Tensor& block) const;

  at::Device device_;
  std::int64_t bytes_ = 0;
  std::vector<Place> places_;
  at::Tensor memory_;                 // the host's, bytes
  std::unique_ptr<c10::Event> back_;  // the latest put_back() of a GPU
};

}  // namespace stages
