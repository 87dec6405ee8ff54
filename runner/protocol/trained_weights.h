#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/stage/run_context.h"

namespace runner {

/// Trainings that an earlier run has done, by node.
using TrainedNodes = std::map<std::string, TrainedWeights>;

/// As protocol.md has it: {node: {"folder", "choice"}}. trained_from_json throws std::runtime_error on anything else.
nlohmann::ordered_json to_json(const TrainedNodes& nodes);
TrainedNodes trained_from_json(const nlohmann::ordered_json& json);

/// "kept", "best", "latest" or "this".
std::string_view name(TrainedWeights::Choice choice);

}  // namespace runner
