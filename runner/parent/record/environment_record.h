#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// True for environment variables that affect where a run computes or the exact bits of its result,
/// and contain no secrets: OMP_*, MKL_*, PYTORCH_*, ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA,
/// CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, CUBLAS_WORKSPACE_CONFIG and SLURM_JOB_ID. Other
/// variables are not recorded.
bool is_recorded_variable(std::string_view name);

/// Returns the properties and settings of this machine that affect results: build, the worker's
/// `versions`, operating system, CPU, cores, instruction sets, memory, and the recorded variables
/// of `environment` (in the form of environ(7)). Contains neither host names nor user names. `proc`
/// is /proc except in tests.
nlohmann::ordered_json environment_record(const nlohmann::ordered_json& versions,
                                          const char* const* environment,
                                          const std::filesystem::path& proc = "/proc");

}  // namespace runner
