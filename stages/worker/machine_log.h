#pragma once

#include <c10/core/Device.h>

#include "runner/shared/record/log.h"

namespace stages {

/// Writes to `log`, at level debug, which process this is, its libraries, kernels and instruction
/// set; at level trace also how LibTorch was built.
void log_worker(runner::Log& log);

/// The same, and what a run takes from its machine: the device, `threads` of the tensor operations,
/// allocators and their settings.
void log_machine(runner::Log& log, c10::Device device, int threads);

}  // namespace stages
