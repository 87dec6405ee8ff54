#pragma once

#include <string>
#include <string_view>

#include <c10/core/Device.h>

#include "runner/shared/error/result.h"

namespace stages {

/// The GPUs that this worker could use.
struct Gpus {
  int count = 0;
  std::string why_none;  ///< when there is none: what is missing
};

/// Asks LibTorch and the driver; initialises neither more than needed.
Gpus find_gpus();

/// "cpu", "cuda" (the first GPU) or "cuda:K", as a recipe's device.select says it; kDeviceUnavailable at
/// /device/select where there is no such device.
runner::Result<c10::Device> choose_device(std::string_view text, const Gpus& gpus);

}  // namespace stages
