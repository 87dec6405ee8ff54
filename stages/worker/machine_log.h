#pragma once

#include <c10/core/Device.h>

#include "runner/shared/record/log.h"

namespace stages {

/// Logs the process, its libraries, kernels and instruction set to `log` at level debug and, at
/// level trace, how LibTorch was built.
void log_worker(runner::Log& log);

/// Logs the same as log_worker(), plus the resources of a run: the device, the number of `threads`
/// for tensor operations, the allocators and their settings.
void log_machine(runner::Log& log, c10::Device device, int threads);

}  // namespace stages
