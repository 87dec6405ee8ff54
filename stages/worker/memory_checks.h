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

/// Whether a mechanism that memory policies rely on works here.
struct MechanismCheck {
  std::string name;
  bool passed = false;
  std::string found;  ///< what was measured, or what went wrong
};

/// The mechanisms that the checks try; a test may substitute a broken one.
struct Mechanisms {
  std::function<decltype(accumulate_gradient)> accumulate = accumulate_gradient;
  std::function<std::vector<std::string>(const AllocatorSettings&)> apply_settings =
      stages::apply_settings;
  std::function<void(std::optional<std::int64_t>)> set_limit =
      {};                                   ///< empty: that of the innermost CountingAllocator
  std::function<void()> restart_peak = {};  ///< as above
  std::int64_t replays = 1;                 ///< of a step that runs out of memory
};

/// Tries every mechanism on small tensors on the CPU. Needs a CountingAllocator, and a process in
/// which LibTorch's allocator settings have not been read yet. Leaves limits and settings at
/// LibTorch's defaults.
std::vector<MechanismCheck> check_mechanisms(const Mechanisms& mechanisms = {});

/// The request "check_memory": {"checks": [{"name", "passed", "found"}], "passed"}.
runner::Result<nlohmann::ordered_json> answer_check_memory(const nlohmann::ordered_json& request,
                                                           const RequestContext& context);

}  // namespace stages
