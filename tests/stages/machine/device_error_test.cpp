#include "stages/machine/device_error.h"

#include <new>
#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace stages {
namespace {

template <typename Run>
bool runs_out_of_memory(const Run& run) {
  try {
    run();
  } catch (const std::exception& error) {
    return is_out_of_memory(error);
  }
  ADD_FAILURE() << "nothing was thrown";
  return false;
}

TEST(DeviceError, OutOfMemoryIsDistinguishedFromOtherErrors) {
  EXPECT_TRUE(runs_out_of_memory([] { torch::empty({std::int64_t{1} << 50}, torch::kByte); }));  // the CPU's own
  EXPECT_TRUE(runs_out_of_memory([] { throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "full"); }));
  EXPECT_TRUE(runs_out_of_memory([] { throw std::bad_alloc(); }));
  EXPECT_TRUE(runs_out_of_memory([] { throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 2, "full"); }));
  for (const char* const words :
       {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED",
        "NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"CUDACachingAllocator.cpp\":1"}) {
    EXPECT_TRUE(runs_out_of_memory([&] { TORCH_CHECK(false, words); })) << words;
  }
  EXPECT_FALSE(runs_out_of_memory([] { throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 700, "lost"); }));
  EXPECT_FALSE(runs_out_of_memory([] { TORCH_CHECK(false, "CUBLAS_STATUS_NOT_INITIALIZED"); }));
  EXPECT_FALSE(runs_out_of_memory([] { torch::ones({2, 3}).mm(torch::ones({2, 3})); }));
  EXPECT_FALSE(runs_out_of_memory([] { throw std::runtime_error("can't allocate memory"); }));
}

TEST(DeviceError, LostDeviceIsKnownByItsCode) {
  const auto is_lost = [](int code) {
    return is_device_lost(c10::AcceleratorError({__func__, __FILE__, __LINE__}, code, "CUDA error"));
  };
  for (const int code : {214, 700, 710, 716, 718, 719}) EXPECT_TRUE(is_lost(code)) << code;
  for (const int code : {1, 2, 100, 801}) EXPECT_FALSE(is_lost(code)) << code;
  EXPECT_FALSE(is_device_lost(std::runtime_error("CUDA error: an illegal memory access was encountered")));
}

}  // namespace
}  // namespace stages
