#pragma once

#include <nlohmann/json_fwd.hpp>

namespace stages {

/// {"libtorch", "cuda_runtime", "compiler"}: what this worker was built from; touches no device.
/// "cuda_runtime" is null for a worker without LibTorch's CUDA part.
nlohmann::ordered_json versions();

/// The same with "devices" ({"name", "memory_bytes", …}), "gpus_missing_because", "threads" and "cpu_capability".
nlohmann::ordered_json devices_and_versions();

}  // namespace stages
