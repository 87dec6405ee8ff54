#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/parent/devices/device_facts.h"
#include "runner/shared/error/result.h"

namespace runner {

/// The variables by which a user, or a cluster's scheduler, says which devices CUDA is to see, and how it counts them.
struct CudaVariables {
  std::optional<std::string> visible = {};  ///< CUDA_VISIBLE_DEVICES; nullopt: not set, which leaves all
  std::optional<std::string> order = {};    ///< CUDA_DEVICE_ORDER
};

/// Those of this process.
CudaVariables cuda_variables();

/// What CUDA would see of the devices of a reading.
struct VisibleDevices {
  std::vector<DeviceFacts> devices = {};  ///< in CUDA's order where that is known, else as in the reading
  /// Whether cuda:K is devices[K]. Not known where CUDA counts from the fastest GPU on and they differ.
  bool in_cuda_order = true;
  std::string remark = {};  ///< what of CUDA_VISIBLE_DEVICES holds nothing, and why; empty: nothing
};

/// CUDA's own rules (CUDA C Programming Guide, "CUDA Environment Variables"): indices, or UUIDs of GPUs and of MIG
/// instances, which may be cut off as long as they stay unique; what follows the first entry that means nothing holds
/// nothing; an empty list leaves none. One thing differs: of several MIG instances CUDA sees the first alone, and here
/// all are listed, since a run that is given one sees that.
///
/// kDeviceUnavailable where the list counts in an order that only CUDA knows.
Result<VisibleDevices> visible_devices(const DeviceReading& reading, const CudaVariables& variables);

}  // namespace runner
