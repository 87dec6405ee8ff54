#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/machine/allocator_settings.h"
#include "stages/train/gradient.h"
#include "stages/worker/requests.h"

namespace stages {

/// The result of checking one mechanism that memory policies rely on.
struct MechanismCheck {
  std::string name;
  bool passed = false;
  std::string found;  ///< what was measured, or what went wrong
};

/// The mechanisms to check. A test may replace one with a broken version.
struct Mechanisms {
  std::function<decltype(accumulate_gradient)> accumulate = accumulate_gradient;
  std::function<std::vector<std::string>(const AllocatorSettings&)> apply_settings =
      stages::apply_settings;
  std::function<void(std::optional<std::int64_t>)> set_limit =
      {};                                   ///< empty: uses the innermost CountingAllocator
  std::function<void()> restart_peak = {};  ///< empty: as for set_limit
  std::int64_t replays = 1;                 ///< number of retries of a step that runs out of memory
};

/// Checks all mechanisms with small tensors on the CPU. Requires a CountingAllocator, and a process
/// in which LibTorch has not yet read its allocator settings. Leaves limits and settings at
/// LibTorch's defaults.
std::vector<MechanismCheck> check_mechanisms(const Mechanisms& mechanisms = {});

/// Answers the "check_memory" request: {"checks": [{"name", "passed", "found"}], "passed"}.
runner::Result<nlohmann::ordered_json> answer_check_memory(const nlohmann::ordered_json& request,
                                                           const RequestContext& context);

}  // namespace stages
