#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace stand_in {

/// Returns the default generator of a GPU, and the CPU's generator that it draws from.
const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);
at::Generator host_generator(const at::Generator& of_gpu);

}  // namespace stand_in
