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

/// The GPUs that this worker could use.
struct Gpus {
  int count = 0;
  std::string why_none;  ///< when there is none: what is missing
};

/// Asks LibTorch and the driver; initialises neither more than needed.
Gpus find_gpus();

/// "cpu", "cuda" (the first GPU) or "cuda:K", as a recipe's device.select says it;
/// kDeviceUnavailable at /device/select where there is no such device.
runner::Result<c10::Device> choose_device(std::string_view text, const Gpus& gpus);

/// {"libtorch", "cuda_runtime", "compiler"}: what this worker was built from; touches no device.
/// "cuda_runtime" is null for a worker without LibTorch's CUDA part.
nlohmann::ordered_json versions();

/// The same with "devices" ({"name", "memory_bytes", …}), "gpus_missing_because", "threads" and
/// "cpu_capability".
nlohmann::ordered_json devices_and_versions();

/// True for what LibTorch and the C++ library throw where a device or the host has no memory left.
/// What they were about to make is not there; everything else is as it was.
bool is_out_of_memory(const std::exception& error);

/// What nobody has of a device's memory, by its driver, once all that was started there is done;
/// nullopt where the device does not answer, as after an error that it cannot be used after, and
/// for a CPU.
std::optional<std::int64_t> free_device_bytes(c10::Device device);

/// The same for an error that came from `device`. cuBLAS and cuDNN take memory past LibTorch's
/// allocator, for their handles and the kernels that they load, and where they get none they may
/// say INTERNAL_ERROR, EXECUTION_FAILED or NOT_INITIALIZED. They say so of their own bugs and of a
/// device that is lost as well. So it counts as out of memory only where the device still answers,
/// and then has less than kNearlyNil free. Where that is wrong, the work is done once more after
/// unused blocks were returned: then more is free, and the error stands.
bool is_out_of_memory(
    const std::exception& error, c10::Device device,
    const std::function<std::optional<std::int64_t>(c10::Device)>& free_bytes = free_device_bytes);
inline constexpr std::int64_t kNearlyNil = 64 << 20;

/// True for an error of CUDA after which every further call fails too, in this process: an illegal
/// access, a failed assertion or a launch that took too long on the device, a memory error that
/// cannot be corrected, or a device that is gone. Whoever sees one must not touch the device again.
bool is_device_lost(const std::exception& error);

}  // namespace stages
