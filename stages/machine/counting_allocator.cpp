#include "stages/machine/counting_allocator.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "runner/shared/text/units.h"
#include "stages/machine/cpu_pool.h"
#include "stages/machine/gpu.h"

namespace stages {

/// The allocator. Its blocks may outlive the scope, so blocks and scope share ownership of it. The
/// lock is not held during calls to the underlying allocator, which may be another Counter.
class CountingAllocator::Counter final : public c10::Allocator {
 public:
  explicit Counter(CountingAllocator* scope) : scope_(scope) {}

  c10::DataPtr allocate(std::size_t size) override {
    if (size == 0) return under_->allocate(0);
    const auto bytes = static_cast<std::int64_t>(size);
    reserve(bytes);
    c10::DataPtr block;
    try {
      block = under_->allocate(sizeof(Head) + size);
    } catch (const std::exception&) {
      give_back(bytes);
      if (pool_) note_refused_by_pool(bytes);
      throw;
    }
    auto* const head = new (block.get()) Head;
    head->block = std::move(block);
    head->owner = this;
    head->bytes = bytes;
    head->phase = current_phase();
    enter(*head);
    void* const data = head + 1;
    return {data, data, free, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  void release() {
    std::unique_lock lock(mutex_);
    scope_ = nullptr;
    leave(lock);
  }

  /// Calls `work` while holding the lock.
  template <typename Work>
  auto locked(Work work) {
    const std::lock_guard lock(mutex_);
    return work();
  }
  std::vector<LiveBlock> alive() const {
    std::vector<LiveBlock> blocks;
    for (const Head* head = first_; head; head = head->next)
      blocks.push_back({head + 1, head->bytes, head->phase});
    return blocks;
  }

  void set_limit(std::optional<std::int64_t> bytes) {
    if (pool_) return pool_->set_limit(bytes);
    locked([&] { limit_ = bytes; });
  }
  std::optional<std::int64_t> limit() {
    if (pool_) return pool_->limit();
    return locked([this] { return limit_; });
  }

  c10::Allocator* const under_ = c10::GetCPUAllocator();
  CpuPool* const pool_ = pool_of(under_);
  CountingAllocator* scope_;
  std::int64_t live_ = 0, peak_ = 0, mark_ = 0, allocations_ = 0, refusals_ = 0;
  std::optional<RefusedBlock> refused_;
  std::int64_t until_refusal_ = 0;  // counts down allocations
  BlockObserver* observer_ = nullptr;

 private:
  /// Precedes each block's data. Its size preserves the alignment that torch needs.
  struct alignas(64) Head {
    c10::DataPtr block;
    Counter* owner = nullptr;
    Head *previous = nullptr, *next = nullptr;
    std::int64_t bytes = 0;
    StepPhase phase{};
  };
  static_assert(sizeof(Head) == kHeadBytes);

  static CpuPool* pool_of(c10::Allocator* allocator) {
    auto* const counter = dynamic_cast<Counter*>(allocator);
    return counter ? counter->pool_ : CpuPool::of(allocator);
  }

  /// Counts the bytes of a block that is about to be allocated, or refuses it.
  void reserve(std::int64_t bytes) {
    std::string message;
    {
      const std::lock_guard lock(mutex_);
      const bool is_test = until_refusal_ > 0 && --until_refusal_ == 0;
      const bool is_too_much = limit_ && bytes > *limit_ - live_;
      if (!is_test && !is_too_much) {
        live_ += bytes;
        return;
      }
      ++refusals_;
      refused_ = {
          bytes,           live_,  live_, live_ + bytes, is_too_much ? limit_ : std::nullopt,
          current_phase(), alive()};
      using runner::bytes_text;
      message = is_too_much ? "tried to allocate " + bytes_text(bytes) + " while " +
                                  bytes_text(live_) + " of " + bytes_text(*limit_) + " are in use"
                            : std::to_string(bytes) + " bytes were refused at a test's request";
    }
    TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: ", message);
  }
  void note_refused_by_pool(std::int64_t bytes) {
    const std::int64_t taken = pool_->reserved(), wanted = pool_->wanted_limit();
    std::optional<std::int64_t> limit = pool_->limit();
    if (limit && wanted <= *limit)
      limit.reset();  // the system ran out of memory; the limit was not reached
    const std::lock_guard lock(mutex_);
    ++refusals_;
    refused_ = {bytes, live_, taken, wanted, limit, current_phase(), alive()};
  }
  void give_back(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    live_ -= bytes;
  }
  void enter(Head& head) {
    const std::lock_guard lock(mutex_);
    head.previous = last_;
    (last_ ? last_->next : first_) = &head;
    last_ = &head;
    ++users_;
    ++allocations_;
    peak_ = std::max(peak_, live_);
    mark_ = std::max(mark_, live_);
    if (observer_) observer_->born(&head + 1, head.bytes, head.phase);
  }
  static void free(void* data) {
    if (!data) return;
    Head* const head = static_cast<Head*>(data) - 1;
    Counter& owner = *head->owner;
    {
      std::unique_lock lock(owner.mutex_);
      (head->previous ? head->previous->next : owner.first_) = head->next;
      (head->next ? head->next->previous : owner.last_) = head->previous;
      owner.live_ -= head->bytes;
      if (owner.observer_) owner.observer_->died(data);
      owner.leave(lock);
    }
    const c10::DataPtr block = std::move(head->block);
    head->~Head();
  }
  /// Removes one user and unlocks `lock`. Afterward, this object may no longer exist.
  void leave(std::unique_lock<std::mutex>& lock) {
    const bool is_last = --users_ == 0;
    lock.unlock();
    if (is_last) delete this;
  }

  std::mutex mutex_;
  std::optional<std::int64_t> limit_;        // in bytes; not used if a pool enforces the limit
  Head *first_ = nullptr, *last_ = nullptr;  // list of the live blocks, oldest first
  std::int64_t users_ = 1;
};

CountingAllocator::CountingAllocator() : counter_(new Counter(this)) {
  c10::SetCPUAllocator(counter_);
  if (c10::GetCPUAllocator() == counter_) return;
  counter_->release();
  throw std::logic_error("counting allocator: the current CPU allocator cannot be replaced");
}

CountingAllocator::~CountingAllocator() {
  c10::SetCPUAllocator(counter_->under_);
  counter_->release();
}

CountingAllocator* CountingAllocator::innermost() {
  auto* const counter = dynamic_cast<Counter*>(c10::GetCPUAllocator());
  return counter ? counter->scope_ : nullptr;
}

CpuPool* CountingAllocator::pool() const { return counter_->pool_; }

std::int64_t CountingAllocator::live_bytes() const {
  return counter_->locked([this] { return counter_->live_; });
}
std::int64_t CountingAllocator::peak_bytes() const {
  return counter_->locked([this] { return counter_->peak_; });
}
std::int64_t CountingAllocator::allocations() const {
  return counter_->locked([this] { return counter_->allocations_; });
}
std::int64_t CountingAllocator::refusals() const {
  return counter_->locked([this] { return counter_->refusals_; });
}
std::vector<LiveBlock> CountingAllocator::alive() const {
  return counter_->locked([this] { return counter_->alive(); });
}
void CountingAllocator::restart_peak() {
  counter_->locked([this] { counter_->peak_ = counter_->live_; });
}
std::int64_t CountingAllocator::take_peak() {
  return counter_->locked([this] { return std::exchange(counter_->mark_, counter_->live_); });
}
void CountingAllocator::set_limit(std::optional<std::int64_t> bytes) { counter_->set_limit(bytes); }
std::optional<std::int64_t> CountingAllocator::limit() const { return counter_->limit(); }
std::optional<RefusedBlock> CountingAllocator::refused() const {
  return counter_->locked([this] { return counter_->refused_; });
}
std::optional<RefusedBlock> CountingAllocator::take_refused() {
  return counter_->locked([this] { return std::exchange(counter_->refused_, std::nullopt); });
}
void CountingAllocator::set_observer(BlockObserver* observer) {
  counter_->locked([&] { counter_->observer_ = observer; });
}

void CountingAllocator::refuse(std::int64_t nth) {
  counter_->locked([&] { counter_->until_refusal_ = nth; });
}
bool CountingAllocator::will_refuse() const {
  return counter_->locked([this] { return counter_->until_refusal_ > 0; });
}

namespace {

CpuPool* counted_pool(c10::Device device) {
  auto* const counter = device.is_cpu() ? CountingAllocator::innermost() : nullptr;
  return counter ? counter->pool() : nullptr;
}

}  // namespace

bool has_cache(c10::Device device) {
  return (device.is_cuda() && gpu::is_supported()) || counted_pool(device) != nullptr;
}

void empty_cache(c10::Device device) {
  if (CpuPool* const pool = counted_pool(device)) pool->empty_cache();
  if (device.is_cuda() && gpu::is_supported() && gpu::allocator().initialized())
    gpu::allocator().emptyCache();
}

}  // namespace stages
