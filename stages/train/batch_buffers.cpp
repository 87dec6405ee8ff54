#include "stages/train/batch_buffers.h"

#include <string>
#include <utility>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/strides.h>
#include <torch/types.h>

namespace stages {

/// The stream for the copies, synchronized with the stream that computes.
class BatchBuffers::CopyStream {
 public:
  explicit CopyStream(at::Device device)
      : device_(device),
        gpu_(device.type()),
        stream_(gpu_.getStreamFromGlobalPool(device)),
        earlier_(device.type()),
        copied_(device.type()) {
    earlier_.record(gpu_.getStream(device));  // the buffers' memory may just have been freed
  }

  /// Queues the copies. They wait for the work queued before the previous call, which is the last
  /// that may use the buffer to be filled.
  void copy(const std::vector<std::pair<at::Tensor, at::Tensor>>& from_to) {
    const c10::Stream computing = gpu_.getStream(device_);
    earlier_.block(stream_);
    earlier_.record(computing);
    {
      const c10::StreamGuard on_own_stream(stream_);
      for (const auto& [from, to] : from_to) to.copy_(from, /*non_blocking=*/true);
    }
    copied_.record(stream_);
    copied_.block(computing);
  }

 private:
  const at::Device device_;
  const c10::impl::VirtualGuardImpl gpu_;
  const c10::Stream stream_;
  c10::Event earlier_, copied_;
};

BatchBuffers::BatchBuffers(const Batch& largest, at::Device device) : device_(device) {
  for (const auto& [name, tensor] : largest.tensors()) largest_.set(name, tensor.to(at::kMeta));
}
BatchBuffers::~BatchBuffers() = default;

void BatchBuffers::allocate() {
  if (buffers_.back().size() > 0) return;
  std::array<NamedTensors, 2> buffers;
  for (NamedTensors& buffer : buffers) {
    for (const auto& [name, tensor] : largest_)
      buffer.set(name, torch::empty(tensor.sizes(), tensor.options().device(device_)));
  }
  buffers_ = std::move(buffers);
  if (!device_.is_meta()) stream_ = std::make_unique<CopyStream>(device_);
}

namespace {

/// Returns the memory of the buffer called `name` as a tensor with the shape of `tensor`; undefined
/// if it does not fit or still has other users.
at::Tensor place_in(const NamedTensors& buffers, const std::string& name,
                    const at::Tensor& tensor) {
  if (!buffers.contains(name)) return {};
  const at::Tensor buffer = buffers.at(name);
  const bool fits =
      tensor.scalar_type() == buffer.scalar_type() && tensor.numel() <= buffer.numel();
  if (!fits || buffer.storage().use_count() > 1) return {};
  // For autograd it is not a view, so that a network may change its inputs in place.
  return buffer.as_strided(tensor.sizes(), c10::contiguous_strides(tensor.sizes())).tensor_data();
}

}  // namespace

Batch BatchBuffers::fill(const Batch& batch) {
  const torch::NoGradGuard no_graph;
  allocate();
  const std::size_t next = 1 - current_;
  Batch filled = batch;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto& [name, tensor] : batch.tensors()) {
    const at::Tensor place = place_in(buffers_[next], name, tensor);
    filled = filled.with(name, place.defined() ? place : send_to(device_, tensor));
    if (!place.defined() || device_.is_meta()) continue;
    copies.emplace_back(tensor.is_pinned() ? tensor : tensor.pin_memory(), place);
  }
  if (stream_) stream_->copy(copies);
  current_ = next;
  return filled;
}

}  // namespace stages
