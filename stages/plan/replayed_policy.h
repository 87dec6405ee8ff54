#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "stages/memory/policy.h"

namespace stages {

/// Returns the policy that was chosen in an earlier plan. `step` is MemoryPlan::step of that plan,
/// for the network of `model_stage`. nullopt if `step` is empty or the written policy does not
/// leave these choices open. Throws std::runtime_error if `step` is invalid.
std::optional<MemoryPolicy> replayed_policy(const nlohmann::ordered_json& step,
                                            const MemoryPolicy& written,
                                            const std::string& model_stage);

}  // namespace stages
