#include "stages/machine/device_error.h"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string_view>

#include <c10/util/Exception.h>

#ifdef RETORT_LIBTORCH_CUDA
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace stages {
namespace {

constexpr int kCudaMemoryAllocation = 2;

// Of cudaError_t, in CUDA 12 and 13: cudaErrorDevicesUnavailable, EccUncorrectable, NvlinkUncorrectable,
// IllegalAddress, LaunchTimeout, Assert, HardwareStackError, IllegalInstruction, MisalignedAddress,
// InvalidAddressSpace, InvalidPc, LaunchFailure, ExternalDevice, Contained, and Unknown.
constexpr std::array kSticky = {46, 214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999};

bool has_words(const std::exception& error, std::span<const std::string_view> all) {
  const auto* plain = dynamic_cast<const c10::Error*>(&error);
  if (!plain) return false;
  const std::string_view message = plain->what_without_backtrace();
  return std::ranges::any_of(all, [&](std::string_view words) { return message.find(words) != message.npos; });
}

}  // namespace

std::optional<std::int64_t> free_device_bytes([[maybe_unused]] c10::Device device) {
#ifdef RETORT_LIBTORCH_CUDA
  if (!device.is_cuda()) return {};
  try {
    const c10::DeviceGuard guard(device);
    c10::cuda::device_synchronize();
    return static_cast<std::int64_t>(c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(device.index()).first);
  } catch (const c10::Error&) {
    return {};
  }
#else
  return {};
#endif
}

bool is_out_of_memory(const std::exception& error, c10::Device device,
                      const std::function<std::optional<std::int64_t>(c10::Device)>& free_bytes) {
  if (is_out_of_memory(error)) return true;
  static constexpr std::array<std::string_view, 5> kWords = {
      "CUBLAS_STATUS_INTERNAL_ERROR", "CUBLAS_STATUS_EXECUTION_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED",
      "CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_EXECUTION_FAILED"};
  if (!has_words(error, kWords)) return false;
  const std::optional<std::int64_t> free = free_bytes(device);
  return free && *free < kNearlyNil;
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error)) return true;
  // Memory that CUDA itself was asked for, past torch's allocator.
  if (const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error))
    return device->get_error_code() == kCudaMemoryAllocation;
  // The CPU's allocator and CUDA's libraries have no type of their own; where the driver does not answer (MIG,
  // containers, Jetson), LibTorch fails when it asks how much memory is left.
  static constexpr std::array<std::string_view, 5> kWords = {"can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED",
                                                             "CUDNN_STATUS_ALLOC_FAILED",
                                                             "CUSOLVER_STATUS_ALLOC_FAILED", "NVML_SUCCESS == r"};
  return has_words(error, kWords);
}

bool is_device_lost(const std::exception& error) {
  const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error);
  return device && std::ranges::count(kSticky, device->get_error_code()) > 0;
}

}  // namespace stages
