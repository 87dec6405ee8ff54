#include "stages/counting_allocator.h"

#include <new>
#include <stdexcept>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

namespace stages {

/// The allocator itself. Its blocks may outlive the scope, so the last of them and the scope share it.
class CountingAllocator::Counter final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return under_->allocate(0);
    if (until_refusal_ > 0 && until_refusal_.fetch_sub(1) == 1)
      TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: ", bytes, " bytes are refused, as a test asks for");
    c10::DataPtr block = under_->allocate(sizeof(Head) + bytes);
    auto* const head = new (block.get()) Head;
    head->block = std::move(block);
    head->owner = this;
    head->bytes = static_cast<std::int64_t>(bytes);
    users_.fetch_add(1);
    allocations_.fetch_add(1);
    const std::int64_t live = live_.fetch_add(head->bytes) + head->bytes;
    std::int64_t peak = peak_.load();
    while (live > peak && !peak_.compare_exchange_weak(peak, live)) {
    }
    void* const data = head + 1;
    return {data, data, free, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  void release() {
    if (users_.fetch_sub(1) == 1) delete this;
  }

  c10::Allocator* const under_ = c10::GetCPUAllocator();
  std::atomic<std::int64_t> live_ = 0, peak_ = 0, allocations_ = 0;
  std::atomic<std::int64_t> until_refusal_ = 0;  // blocks

 private:
  /// Before each block's data, which stays aligned as torch wants it.
  struct alignas(64) Head {
    c10::DataPtr block;
    Counter* owner;
    std::int64_t bytes;
  };

  static void free(void* data) {
    if (!data) return;
    Head* const head = static_cast<Head*>(data) - 1;
    head->owner->live_.fetch_sub(head->bytes);
    head->owner->release();
    const c10::DataPtr block = std::move(head->block);
    head->~Head();
  }

  std::atomic<std::int64_t> users_ = 1;
};

CountingAllocator::CountingAllocator() : counter_(new Counter) {
  c10::SetCPUAllocator(counter_);
  if (c10::GetCPUAllocator() == counter_) return;
  counter_->release();
  throw std::logic_error("counting allocator: another allocator of the CPU does not let itself be displaced");
}

CountingAllocator::~CountingAllocator() {
  c10::SetCPUAllocator(counter_->under_);
  counter_->release();
}

std::int64_t CountingAllocator::live_bytes() const { return counter_->live_; }
std::int64_t CountingAllocator::peak_bytes() const { return counter_->peak_; }
std::int64_t CountingAllocator::allocations() const { return counter_->allocations_; }
void CountingAllocator::restart_peak() { counter_->peak_ = counter_->live_.load(); }
void CountingAllocator::refuse(std::int64_t nth) { counter_->until_refusal_ = nth; }
bool CountingAllocator::will_refuse() const { return counter_->until_refusal_ > 0; }

}  // namespace stages
