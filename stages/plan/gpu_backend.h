#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/machine/allocator_settings.h"
#include "stages/plan/step_profile.h"
#include "stages/plan/trace_history.h"

// The GPU-specific part of a plan: allocator, memory outside it, and speed.

namespace stages {

/// Returns the peak of the bytes reserved by LibTorch's caching allocator.
std::int64_t reserved_on_gpu(const TraceHistory& history, const AllocatorSettings& settings);

/// The GPU memory that a process uses outside its allocator: CUDA's context, and kernels, which are
/// loaded on first use.
struct GpuContext {
  std::int64_t at_start = 0;  ///< bytes before any kernel has run: a lower bound
  std::int64_t in_all = 0;    ///< bytes with all kernels loaded: an upper bound
  const char* source = "";
};
/// Returns the context memory of the GPU called `model`, which may be empty.
GpuContext gpu_context(std::string model);

/// Returns cuBLAS's workspaces as tensors in `trace`. cuBLAS gets them from the GPU's allocator on
/// first use and keeps them; the trace keeps them as long as the result lives. Empty for a CPU.
std::vector<at::Tensor> library_workspaces(MemoryTrace& trace);

/// Returns how many bytes a CUDA graph reserves for itself if it repeats the work that the live
/// trace has recorded since its event `first_event`, on inputs of the sizes `inputs`; 0 without a
/// trace.
std::int64_t pool_of_graph(std::size_t first_event, const std::vector<std::int64_t>& inputs);

/// Returns the name of a traced operation on a GPU. Attention is always traced with the CPU's
/// kernel, no matter which kernel a GPU uses.
std::string operation_on_gpu(const std::string& operation);

double seconds_on_gpu(const StepWork& work);

}  // namespace stages
