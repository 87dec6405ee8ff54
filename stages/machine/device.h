#pragma once

#include <array>
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
  std::string why_none;  ///< the reason if there is none: what is missing
};

/// Queries LibTorch and the driver; initialises neither more than needed.
Gpus find_gpus();

/// The name of a GPU as its driver says it, "NVIDIA L4"; empty for a CPU.
std::string gpu_model(c10::Device device);

/// The number by which its driver knows a GPU, on every machine another.
std::array<std::int64_t, 2> gpu_uuid(c10::Device gpu);

/// Parses a recipe's device.select: "cpu", "cuda" (the first GPU) or "cuda:K"; kDeviceUnavailable
/// at /device/select if there is no such device.
runner::Result<c10::Device> choose_device(std::string_view text, const Gpus& gpus);

/// {"libtorch", "cuda_runtime", "compiler"}: the versions this worker was built with; touches no
/// device. "cuda_runtime" is null for a worker without LibTorch's CUDA part.
nlohmann::ordered_json versions();

/// The same with "devices" ({"name", "memory_bytes", …}), "gpus_missing_because", "threads" and
/// "cpu_capability".
nlohmann::ordered_json devices_and_versions();

/// True for the out-of-memory exceptions of LibTorch and the C++ library, for a device or the host.
/// The failed allocation has no effect; everything else is unchanged.
bool is_out_of_memory(const std::exception& error);

/// The free memory of a device as reported by its driver, once all work started there is done;
/// nullopt for a CPU, and if the device does not answer, as after an unrecoverable error.
std::optional<std::int64_t> free_device_bytes(c10::Device device);

/// The same for an error that came from `device`. cuBLAS and cuDNN allocate memory outside
/// LibTorch's allocator, for their handles and for kernels they load. If that fails, they may
/// report INTERNAL_ERROR, EXECUTION_FAILED or NOT_INITIALIZED. They report the same for their own
/// bugs and for a lost device. So it counts as out of memory only if the device still answers and
/// has less than kNearlyNil free. If that is a wrong guess, the work is retried after unused blocks
/// are returned: then more is free, and the error stands.
bool is_out_of_memory(
    const std::exception& error, c10::Device device,
    const std::function<std::optional<std::int64_t>(c10::Device)>& free_bytes = free_device_bytes);
inline constexpr std::int64_t kNearlyNil = 64 << 20;

/// True for a CUDA error after which every further call in this process fails too: an illegal
/// access, a failed assertion or a launch timeout on the device, an uncorrectable memory error, or
/// a device that is gone. The caller must not touch the device again.
bool is_device_lost(const std::exception& error);

}  // namespace stages
