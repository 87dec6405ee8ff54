#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/plan_text.h"
#include "runner/parent/svg/drawing.h"

namespace runner {

// Reports on a learning rate range test. `found` is the result of `retort lr-find`
// (schemas/output/lr_find.json) with at least one point.

/// Returns the override that sets the suggested learning rate, rounded to two digits, such as
/// "train.optimizer.learning_rate=0.0032"; nullopt if there is no suggestion.
std::optional<std::string> suggested_override(const nlohmann::ordered_json& found);

/// Returns the smoothed loss as a sparkline and a table, and the suggestion.
std::string range_test_text(const nlohmann::ordered_json& found, const TextStyle& style);

/// Plots the loss against the learning rate, on a logarithmic axis.
Drawing draw_range_test(const nlohmann::ordered_json& found, const std::string& name);

}  // namespace runner
