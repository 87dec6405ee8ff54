#pragma once

#include <ATen/Parallel.h>

/// Tensor operations use `wanted` threads while it lives.
class ScopedThreads {
 public:
  explicit ScopedThreads(int wanted) : before_(at::get_num_threads()) {
    at::set_num_threads(wanted);
  }
  ~ScopedThreads() { at::set_num_threads(before_); }

 private:
  const int before_;
};
