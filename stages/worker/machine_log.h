#pragma once

#include <c10/core/Device.h>

#include "runner/shared/record/log.h"

namespace stages {

/// Writes the process, its libraries, kernels and instruction set to `log` at level debug, and at
/// level trace also how LibTorch was built.
void log_worker(runner::Log& log);

/// Writes the same as log_worker(), and the resources of a run: the device, the number of `threads`
/// for tensor operations, the allocators and their settings.
void log_machine(runner::Log& log, c10::Device device, int threads);

}  // namespace stages
