#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "tests/support/test_device.h"

namespace stages {

/// The first GPU, or the one that RETORT_TEST_DEVICE names.
inline const at::Device kGpu(test_device() == "cpu" ? "cuda:0" : test_device());

}  // namespace stages

/// Skips a test if no GPU can be used.
#define NEEDS_GPU() \
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU can be used"
