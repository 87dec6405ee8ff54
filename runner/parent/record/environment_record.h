#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// True for the environment variables that change a run's bits or place and hold no secret: OMP_*,
/// MKL_*, PYTORCH_*, ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA, CUDA_VISIBLE_DEVICES,
/// CUDA_DEVICE_ORDER, CUBLAS_WORKSPACE_CONFIG and SLURM_JOB_ID. No other variable is recorded.
bool is_recorded_variable(std::string_view name);

/// The parts of this machine and its settings that affect a result: build, the worker's `versions`,
/// operating system, CPU, cores, instruction sets, memory and the recorded variables of
/// `environment` (as environ(7)). No host name, no user. `proc` is /proc except in tests.
nlohmann::ordered_json environment_record(const nlohmann::ordered_json& versions,
                                          const char* const* environment,
                                          const std::filesystem::path& proc = "/proc");

}  // namespace runner
