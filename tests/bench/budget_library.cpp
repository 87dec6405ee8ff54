// The CPU allocator with a budget (stages/machine/cpu_pool.h) for a Python that has loaded torch,
// through ctypes. Failed allocations raise an error with the text that batch-size finders look for:
//
//   budget = ctypes.CDLL("libbudget_library.so")
//   budget.budget_start()      # all CPU tensors from here on
//   budget.budget_limit(64 << 20)

#include <atomic>
#include <cstdint>
#include <optional>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"

namespace {

std::atomic<std::int64_t> refusals = 0;

/// Wraps the worker's allocators, and reports their failures like torch's own CPU allocator.
class RefusingAllocator final : public c10::Allocator {
 public:
  explicit RefusingAllocator(c10::Allocator& own) : own_(own) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    try {
      return own_.allocate(bytes);
    } catch (const c10::OutOfMemoryError&) {
      ++refusals;
      TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ",
                  bytes, " bytes.");
    }
  }
  c10::DeleterFnPtr raw_deleter() const override { return own_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    own_.copy_data(to, from, bytes);
  }

 private:
  c10::Allocator& own_;
};

/// Never destroyed: tensors live as long as the process.
stages::CpuPool* pool = nullptr;

}  // namespace

extern "C" {

/// Must be called once, before all others.
void budget_start() {
  pool = new stages::CpuPool();
  new stages::CountingAllocator();
  c10::SetCPUAllocator(new RefusingAllocator(*c10::GetCPUAllocator()));
}
/// The number of bytes that may be reserved; negative: unlimited.
void budget_limit(std::int64_t bytes) {
  pool->set_limit(bytes < 0 ? std::nullopt : std::optional(bytes));
}
std::int64_t budget_peak() { return pool->peak_reserved(); }
std::int64_t budget_refusals() { return refusals; }
}
