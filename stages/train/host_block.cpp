#include "stages/train/host_block.h"

#include <cassert>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include "stages/plan/memory_trace.h"

namespace stages {
namespace {

constexpr std::int64_t kAlignment = 64;  // in bytes; no kernel uses wider vectors

at::TensorOptions bytes_on(at::Device device) {
  return at::TensorOptions(at::kByte).device(device);
}

at::Tensor zeros_of_host(std::int64_t bytes, at::Device device) {
  if (device.is_meta()) {
    const ScopedUntraced not_of_the_device;
    return torch::empty({bytes}, bytes_on(device));
  }
  return torch::zeros({bytes}, bytes_on(at::kCPU).pinned_memory(!device.is_cpu()));
}

std::vector<std::int64_t> dense_strides(const at::Tensor& like) {
  return like.is_non_overlapping_and_dense() ? like.strides().vec()
                                             : like.new_empty(like.sizes()).strides().vec();
}

}  // namespace

HostBlock::HostBlock(const std::vector<at::Tensor>& like) : device_(like.at(0).device()) {
  for (const at::Tensor& one : like) {
    assert(one.device() == device_);
    const auto bytes = static_cast<std::int64_t>(one.nbytes());
    places_.push_back({bytes_, bytes, one.sizes().vec(), dense_strides(one), one.scalar_type()});
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  memory_ = zeros_of_host(bytes_, device_);
}

HostBlock::~HostBlock() = default;
HostBlock::HostBlock(HostBlock&&) noexcept = default;
HostBlock& HostBlock::operator=(HostBlock&&) noexcept = default;

std::vector<at::Tensor> HostBlock::within(const at::Tensor& block) const {
  std::vector<at::Tensor> tensors;
  at::Tensor typed;
  for (const Place& place : places_) {
    if (!typed.defined() || typed.scalar_type() != place.type) typed = block.view(place.type);
    const auto size = static_cast<std::int64_t>(typed.element_size());
    const std::int64_t begin = typed.storage_offset() + place.offset / size;
    tensors.push_back(typed.as_strided(place.sizes, place.strides, begin));
  }
  return tensors;
}

void HostBlock::wait() const {
  if (back_) back_->synchronize();
}

at::Tensor HostBlock::scratch() const { return torch::empty({bytes_}, bytes_on(device_)); }

std::vector<at::Tensor> HostBlock::bring(const at::Tensor& scratch) const {
  scratch.narrow(0, 0, bytes_).copy_(memory_, /*non_blocking=*/true);
  return within(scratch);
}

void HostBlock::put_back(const at::Tensor& scratch) {
  memory_.copy_(scratch.narrow(0, 0, bytes_), /*non_blocking=*/true);
  if (device_.is_cpu() || device_.is_meta()) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  if (!back_) back_ = std::make_unique<c10::Event>(device_.type());
  back_->record(guard.getStream(device_));
}

}  // namespace stages
