#include "stages/plan/block_recording.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>
#include <utility>

#include "stages/machine/gpu.h"

namespace stages {
namespace {

std::atomic<BlockRecording*> on_gpu = nullptr;
std::atomic<c10::DeviceIndex> recorded_gpu = 0;

/// Registers a listener once per process, since LibTorch's allocator cannot remove one.
void listen_to_gpus() {
  static const bool once = [] {
    using Entry = c10::CachingDeviceAllocator::TraceEntry;
    gpu::track_allocations([](const Entry& entry) {
      BlockRecording* const recording = on_gpu;
      if (!recording || entry.device_ != recorded_gpu) return;
      const auto* const data = reinterpret_cast<const void*>(entry.addr_);
      if (entry.action_ == Entry::ALLOC) {
        recording->born(data, static_cast<std::int64_t>(entry.size_), current_phase());
      } else if (entry.action_ == Entry::FREE_COMPLETED) {
        recording->died(data);
      }
    });
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

BlockRecording::BlockRecording(c10::Device device)
    : device_(device), counter_(device.is_cpu() ? CountingAllocator::innermost() : nullptr) {
  if (counter_) {
    counter_->set_observer(this);
    return;
  }
  if (!device.is_cuda()) throw std::logic_error("the memory of this device cannot be recorded");
  listen_to_gpus();
  recorded_gpu = device.index();
  on_gpu = this;
}

BlockRecording::~BlockRecording() {
  if (counter_) counter_->set_observer(nullptr);
  on_gpu = nullptr;
}

void BlockRecording::own(const at::Tensor& tensor, Owner owner, std::string name) {
  if (!tensor.defined() || tensor.device().type() != device_.type()) return;
  const std::lock_guard lock(mutex_);
  const auto found = alive_.find(tensor.storage().data());
  if (found == alive_.end()) return;
  TracedStorage& storage = work_.storages[found->second];
  storage.owner = owner;
  storage.name = std::move(name);
  storage.shape = tensor.sizes().vec();
  storage.dtype = tensor.scalar_type();
}

std::size_t BlockRecording::place() const {
  const std::lock_guard lock(mutex_);
  return work_.events.size();
}

RecordedWork BlockRecording::since(std::size_t place) const {
  const std::lock_guard lock(mutex_);
  RecordedWork part;
  std::unordered_map<std::size_t, std::size_t> numbers;  // indices within the part
  for (std::size_t i = place; i < work_.events.size(); ++i) {
    TraceEvent event = work_.events[i];
    if (event.is_birth) {
      numbers[event.storage] = part.storages.size();
      part.storages.push_back(work_.storages[event.storage]);
    }
    const auto number = numbers.find(event.storage);
    if (number == numbers.end()) continue;
    event.storage = number->second;
    part.events.push_back(event);
  }
  return part;
}

std::vector<TracedStorage> BlockRecording::alive() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t> numbers;
  for (const auto& [data, number] : alive_) numbers.push_back(number);
  std::ranges::sort(numbers);
  std::vector<TracedStorage> storages;
  for (const std::size_t number : numbers) storages.push_back(work_.storages[number]);
  return storages;
}

void BlockRecording::born(const void* data, std::int64_t bytes, StepPhase phase) {
  const std::lock_guard lock(mutex_);
  const std::size_t number = work_.storages.size();
  work_.storages.push_back({.bytes = bytes, .owner = Owner::kMeasured, .phase = phase});
  work_.events.push_back({number, /*is_birth=*/true, phase, /*flops=*/0});
  alive_[data] = number;
}

void BlockRecording::died(const void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = alive_.extract(data);
  if (!found) return;
  work_.events.push_back({found.mapped(), /*is_birth=*/false, current_phase(), /*flops=*/0});
}

}  // namespace stages
