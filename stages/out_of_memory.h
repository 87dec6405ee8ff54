#pragma once

#include <exception>

namespace stages {

/// True for what LibTorch and the C++ library throw where a device or the host has no memory left. What they were about
/// to make is not there; everything else is as it was.
bool is_out_of_memory(const std::exception& error);

}  // namespace stages
