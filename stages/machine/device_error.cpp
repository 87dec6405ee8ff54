#include "stages/machine/device_error.h"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include <c10/util/Exception.h>

namespace stages {
namespace {

constexpr int kCudaMemoryAllocation = 2;

// Of cudaError_t, in CUDA 12 and 13: cudaErrorDevicesUnavailable, EccUncorrectable, NvlinkUncorrectable,
// IllegalAddress, LaunchTimeout, Assert, HardwareStackError, IllegalInstruction, MisalignedAddress,
// InvalidAddressSpace, InvalidPc, LaunchFailure, ExternalDevice, Contained, and Unknown.
constexpr std::array kSticky = {46, 214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999};

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error)) return true;
  // Memory that CUDA itself was asked for, past torch's allocator.
  if (const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error))
    return device->get_error_code() == kCudaMemoryAllocation;
  // The CPU's allocator and CUDA's libraries have no type of their own; where the driver does not answer (MIG,
  // containers, Jetson), LibTorch fails when it asks how much memory is left.
  const auto* other = dynamic_cast<const c10::Error*>(&error);
  if (!other) return false;
  const std::string_view message = other->what_without_backtrace();
  constexpr std::array<std::string_view, 5> kWords = {"can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED",
                                                      "CUDNN_STATUS_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED",
                                                      "NVML_SUCCESS == r"};
  return std::ranges::any_of(kWords, [&](std::string_view words) { return message.find(words) != message.npos; });
}

bool is_device_lost(const std::exception& error) {
  const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error);
  return device && std::ranges::count(kSticky, device->get_error_code()) > 0;
}

}  // namespace stages
