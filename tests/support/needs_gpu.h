#pragma once

#include <gtest/gtest.h>
#include <torch/cuda.h>

/// Skips a test where no GPU can be used.
#define NEEDS_GPU() \
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU can be used"
