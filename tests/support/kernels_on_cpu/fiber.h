#pragma once

#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>

#include <ucontext.h>

namespace kernels_on_cpu {

/// A function with a stack of its own, which runs in turns with its caller, on the same thread:
///
///   Fiber fiber;
///   fiber.start([&] { first_half(); fiber.pause(); second_half(); });
///   fiber.resume();  // runs the first half
///   fiber.resume();  // runs the second half
class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Prepares to run `work`, which must not throw. If the previous work has not ended, its stack is
  /// dropped without destroying the objects on it.
  void start(std::function<void()> work);
  /// Runs the work until it calls pause() or ends.
  void resume();
  /// Returns to the caller of resume(). Only the work calls it.
  void pause();

  /// True if the address is on this fiber's stack.
  bool owns(const void* address) const;

 private:
  static void enter(unsigned high, unsigned low);

  const std::unique_ptr<std::byte[]> stack_;
  std::function<void()> work_;
  ucontext_t entry_{};
  std::jmp_buf here_, caller_;
  bool has_context_ = false, has_ended_ = true;
};

}  // namespace kernels_on_cpu
