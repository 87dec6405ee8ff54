#pragma once

#include <exception>

namespace stages {

/// True for what LibTorch and the C++ library throw where a device or the host has no memory left. What they were about
/// to make is not there; everything else is as it was.
bool is_out_of_memory(const std::exception& error);

/// True for an error of CUDA after which every further call fails too, in this process: an illegal access, a failed
/// assertion or a launch that took too long on the device, a memory error that cannot be corrected, or a device that is
/// gone. Whoever sees one must not touch the device again.
bool is_device_lost(const std::exception& error);

}  // namespace stages
