#include "stages/train/host_block.h"

#include <cassert>
#include <utility>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include "stages/plan/memory_trace.h"

namespace stages {
namespace {

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

}  // namespace

HostBlock::HostBlock(std::vector<BlockPart> parts, at::Device device)
    : device_(device),
      parts_(std::move(parts)),
      bytes_(bytes_of(parts_)),
      memory_(zeros_of_host(bytes_, device)) {
  assert(!parts_.empty());
}

HostBlock::~HostBlock() = default;
HostBlock::HostBlock(HostBlock&&) noexcept = default;
HostBlock& HostBlock::operator=(HostBlock&&) noexcept = default;

void HostBlock::wait() const {
  if (back_) back_->synchronize();
}

at::Tensor HostBlock::scratch() const { return torch::empty({bytes_}, bytes_on(device_)); }

std::vector<at::Tensor> HostBlock::bring(const at::Tensor& scratch) const {
  scratch.narrow(0, 0, bytes_).copy_(memory_, /*non_blocking=*/true);
  return parts_within(scratch, parts_);
}

void HostBlock::put_back(const at::Tensor& scratch) {
  memory_.copy_(scratch.narrow(0, 0, bytes_), /*non_blocking=*/true);
  if (device_.is_cpu() || device_.is_meta()) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  if (!back_) back_ = std::make_unique<c10::Event>(device_.type());
  back_->record(guard.getStream(device_));
}

}  // namespace stages
