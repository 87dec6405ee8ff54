#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"

namespace stages {

/// The GPUs available to this worker.
struct Gpus {
  int count = 0;
  std::string why_none;  ///< if there are none: the reason, such as a missing driver
};

/// Queries LibTorch and the driver, without initializing more of them than needed.
Gpus find_gpus();

/// Returns the model name of a GPU as reported by its driver, such as "NVIDIA L4"; empty for a CPU.
std::string gpu_model(c10::Device device);

/// Parses a recipe's device.select: "cpu", "cuda" (the first GPU) or "cuda:K". Returns
/// kDeviceUnavailable at /device/select if there is no such device.
runner::Result<c10::Device> choose_device(std::string_view text, const Gpus& gpus);

/// Returns {"libtorch", "cuda_runtime", "compiler"}, the versions this worker was built with;
/// touches no device. "cuda_runtime" is null for a worker without CUDA support.
nlohmann::ordered_json versions();

/// Returns versions() and also "devices" ({"name", "memory_bytes", …}), "gpus_missing_because",
/// "threads" and "cpu_capability".
nlohmann::ordered_json devices_and_versions();

/// True for the out-of-memory exceptions of LibTorch and the C++ library, on a device or the host.
/// The failed allocation has changed nothing.
bool is_out_of_memory(const std::exception& error);

/// Waits for all work on `device`, then returns its free memory in bytes as reported by the driver;
/// nullopt for a CPU, or if the device does not answer, for example after an unrecoverable error.
std::optional<std::int64_t> free_device_bytes(c10::Device device);

/// Like is_out_of_memory(error), but also recognizes failures of cuBLAS and cuDNN on `device`. They
/// allocate memory outside LibTorch's allocator, for their handles and for kernels they load. If
/// that fails, they may report INTERNAL_ERROR, EXECUTION_FAILED or NOT_INITIALIZED, as they also do
/// for their own bugs and for a lost device. So such an error counts as out of memory only if the
/// device still answers and has less than kNearlyNil bytes free. If this guess is wrong, unused
/// blocks are returned and the work is retried. More memory is then free, so the same error is not
/// mistaken for out of memory again.
bool is_out_of_memory(
    const std::exception& error, c10::Device device,
    const std::function<std::optional<std::int64_t>(c10::Device)>& free_bytes = free_device_bytes);
inline constexpr std::int64_t kNearlyNil = 64 << 20;

/// True for a CUDA error after which every further call in this process fails: an illegal access, a
/// failed assertion or launch timeout on the device, an uncorrectable memory error, or a lost
/// device. The caller must not use the device again.
bool is_device_lost(const std::exception& error);

}  // namespace stages
