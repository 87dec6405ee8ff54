#pragma once

#include <ATen/Parallel.h>

/// Sets the number of threads for tensor operations to `wanted` during its lifetime.
class ScopedThreads {
 public:
  explicit ScopedThreads(int wanted) : before_(at::get_num_threads()) {
    at::set_num_threads(wanted);
  }
  ~ScopedThreads() { at::set_num_threads(before_); }

 private:
  const int before_;
};
