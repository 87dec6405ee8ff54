#pragma once

#include <functional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "stages/memory/policy.h"

namespace stages {

/// Where the policy lets a node go on that has run out of memory on `device` for good, in its order: "gpu" for another
/// GPU, "cpu"; only what is not `device`.
std::vector<std::string> other_devices(const MemoryPolicy& policy, c10::Device device);

/// Does `work`. Where memory runs out and the policy allows other devices, it throws runner::StageError that names
/// them, in place of what `work` has thrown.
void run_or_go_elsewhere(const MemoryPolicy& policy, c10::Device device, const std::function<void()>& work);

}  // namespace stages
