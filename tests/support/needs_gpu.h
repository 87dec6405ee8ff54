#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

namespace stages {

inline const at::Device kGpu(at::kCUDA, 0);

}  // namespace stages

/// Skips a test if no GPU can be used.
#define NEEDS_GPU() \
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU can be used"
