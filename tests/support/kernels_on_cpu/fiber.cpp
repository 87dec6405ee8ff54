#include "tests/support/kernels_on_cpu/fiber.h"

#include <cstdint>
#include <utility>

namespace kernels_on_cpu {
namespace {

constexpr std::size_t kStackSize = 1 << 16;

}  // namespace

Fiber::Fiber() : stack_(std::make_unique_for_overwrite<std::byte[]>(kStackSize)) {}

void Fiber::start(std::function<void()> work) {
  work_ = std::move(work);
  has_context_ = has_context_ && has_ended_;
  has_ended_ = false;
}

// Only the first switch to a stack uses its ucontext: such a switch asks the kernel for the signal
// mask, which _setjmp() leaves alone.
void Fiber::resume() {
  if (_setjmp(caller_) != 0) return;
  if (has_context_) _longjmp(here_, 1);
  has_context_ = true;
  getcontext(&entry_);
  entry_.uc_stack.ss_sp = stack_.get();
  entry_.uc_stack.ss_size = kStackSize;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&entry_, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  setcontext(&entry_);
}

void Fiber::pause() {
  if (_setjmp(here_) == 0) _longjmp(caller_, 1);
}

bool Fiber::owns(const void* address) const {
  const auto offset = static_cast<const std::byte*>(address) - stack_.get();
  return offset >= 0 && offset < static_cast<std::ptrdiff_t>(kStackSize);
}

/// Runs one piece of work after another. makecontext() passes numbers of 32 bits, here the two
/// halves of the fiber's address.
void Fiber::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low);
  for (;;) {
    self->work_();
    self->has_ended_ = true;
    self->pause();
  }
}

}  // namespace kernels_on_cpu
