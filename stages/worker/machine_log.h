#pragma once

#include <c10/core/Device.h>

#include "runner/record/log.h"

namespace stages {

/// Writes to `log` what a run takes from its machine, at level debug: the device, `threads` of the tensor operations,
/// kernels and instruction set, allocators and their settings; at level trace also how LibTorch was built.
void log_machine(runner::Log& log, c10::Device device, int threads);

}  // namespace stages
