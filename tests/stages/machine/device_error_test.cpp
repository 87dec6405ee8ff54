#include "stages/machine/device.h"

#include <new>
#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/types.h>

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
  EXPECT_TRUE(runs_out_of_memory(
      [] { torch::empty({std::int64_t{1} << 50}, torch::kByte); }));  // the CPU's own error
  EXPECT_TRUE(runs_out_of_memory([] {
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "full");
  }));
  EXPECT_TRUE(runs_out_of_memory([] { throw std::bad_alloc(); }));
  EXPECT_TRUE(runs_out_of_memory([] {
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 2, "full");
  }));
  for (const char* const words :
       {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED",
        "NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"CUDACachingAllocator.cpp\":1"}) {
    EXPECT_TRUE(runs_out_of_memory([&] { TORCH_CHECK(false, words); })) << words;
  }
  EXPECT_FALSE(runs_out_of_memory([] {
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 700, "lost");
  }));
  EXPECT_FALSE(runs_out_of_memory([] { TORCH_CHECK(false, "CUBLAS_STATUS_NOT_INITIALIZED"); }));
  EXPECT_FALSE(runs_out_of_memory([] { torch::ones({2, 3}).mm(torch::ones({2, 3})); }));
  EXPECT_FALSE(runs_out_of_memory([] { throw std::runtime_error("can't allocate memory"); }));
}

TEST(DeviceError, VagueLibraryErrorMeansOutOfMemoryIfNoMemoryIsFree) {
  const at::Device gpu(at::kCUDA, 0);
  std::optional<std::int64_t> free = 0;
  int asked = 0;
  const auto means_memory = [&](const char* words) {
    try {
      TORCH_CHECK(false, words);
    } catch (const std::exception& error) {
      return is_out_of_memory(error, gpu, [&](c10::Device device) {
        EXPECT_EQ(device, gpu);
        ++asked;
        return free;
      });
    }
    return false;
  };
  for (const char* const words :
       {"CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasGemmEx(...)`",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED_CUDART"}) {
    free = kNearlyNil - 1;
    EXPECT_TRUE(means_memory(words)) << words;
    free = kNearlyNil;
    EXPECT_FALSE(means_memory(words)) << words;
    free.reset();
    EXPECT_FALSE(means_memory(words)) << words << ": the device does not answer";
  }
  free = 0;
  asked = 0;
  EXPECT_TRUE(means_memory("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"));
  EXPECT_FALSE(
      means_memory("CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm(...)`"));
  EXPECT_EQ(asked, 0) << "the allocator is not queried for a clear error";
  EXPECT_EQ(free_device_bytes(at::kCPU), std::nullopt);
}

TEST(DeviceError, LostDeviceIsRecognizedByItsCode) {
  const auto is_lost = [](int code) {
    return is_device_lost(
        c10::AcceleratorError({__func__, __FILE__, __LINE__}, code, "CUDA error"));
  };
  for (const int code : {214, 700, 710, 716, 718, 719}) EXPECT_TRUE(is_lost(code)) << code;
  for (const int code : {1, 2, 100, 801}) EXPECT_FALSE(is_lost(code)) << code;
  EXPECT_FALSE(
      is_device_lost(std::runtime_error("CUDA error: an illegal memory access was encountered")));
}

}  // namespace
}  // namespace stages
