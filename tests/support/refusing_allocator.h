#pragma once

#include <cstddef>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

/// While this object lives, each thread can be refused one block of memory that it requests.
class RefusingAllocator final : public c10::Allocator {
 public:
  RefusingAllocator() { c10::SetCPUAllocator(this); }
  ~RefusingAllocator() override { c10::SetCPUAllocator(under_); }
  RefusingAllocator(const RefusingAllocator&) = delete;
  RefusingAllocator& operator=(const RefusingAllocator&) = delete;

  /// Refuses the `nth` block that this thread requests from now on; 1 is the next one, 0 refuses
  /// none.
  static void refuse(int nth) { until_refusal_ = nth; }
  static bool will_refuse() { return until_refusal_ > 0; }
  /// The number of blocks that this thread has requested so far.
  static int requested() { return requested_; }

  c10::DataPtr allocate(std::size_t bytes) override {
    ++requested_;
    TORCH_CHECK_WITH(OutOfMemoryError, until_refusal_ == 0 || --until_refusal_ > 0,
                     "a test refuses a block");
    return under_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return under_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    under_->copy_data(to, from, bytes);
  }

 private:
  inline static thread_local int until_refusal_ = 0, requested_ = 0;
  c10::Allocator* const under_ = c10::GetCPUAllocator();
};
