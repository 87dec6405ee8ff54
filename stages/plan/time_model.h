#pragma once

#include <cstdint>
#include <string_view>

#include "stages/plan/memory_trace.h"

namespace stages {

/// What a step is made of, in numbers that do not depend on the machine.
struct StepWork {
  double flops = 0;
  double traffic = 0;     ///< bytes that are written, each of which is read about once
  double operations = 0;  ///< that are started
  double moved = 0;       ///< bytes that are copied between the host and a GPU
};

/// Seconds that such a step takes on a device of the backend's kind, by constants for the kind: compute, memory and
/// launches added up. Nothing is timed, so the same recipe gets the same plan everywhere. Good for ranking ways of
/// computing the same step, and for nothing else.
double predicted_seconds(const StepWork& work, const Backend& backend);

/// Changes when the constants do: "time-2".
std::string_view time_model_version();

}  // namespace stages
