#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/machine/allocator_settings.h"
#include "stages/plan/step_profile.h"
#include "stages/plan/trace_history.h"

// What belongs to a GPU in a plan: its allocator, what it needs outside of that, and its speed.

namespace stages {

/// The reserved bytes of LibTorch's caching allocator at their peak.
std::int64_t reserved_on_gpu(const TraceHistory& history, const AllocatorSettings& settings);

/// What a process takes of a GPU outside of its allocator: CUDA's context, and the kernels that are
/// loaded when they are first used.
struct GpuContext {
  std::int64_t at_start = 0;  ///< bytes, at least, before any kernel has run
  std::int64_t in_all = 0;    ///< bytes, at most
  const char* source = "";
};
/// Of a GPU by its name, which may be empty.
GpuContext gpu_context(std::string model);

/// What cuBLAS takes from a GPU's allocator when it is first used, and keeps: tensors of `trace`,
/// in which they live as long as the result does. Empty for a CPU.
std::vector<at::Tensor> library_workspaces(MemoryTrace& trace);

/// The name of a traced operation there: attention is traced by the CPU's kernel, whichever kernel
/// a GPU uses.
std::string operation_on_gpu(const std::string& operation);

double seconds_on_gpu(const StepWork& work);

}  // namespace stages
