#pragma once

#include <c10/core/Device.h>

namespace stages {

/// False where unused blocks of `device`'s memory are not kept: a CPU's tensors are from malloc.
bool has_cache(c10::Device device);

/// Returns the unused blocks of `device`'s allocator to the driver, or on a CPU to the system, where it keeps any.
void empty_cache(c10::Device device);

}  // namespace stages
