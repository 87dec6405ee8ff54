#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/model.h"
#include "stages/evaluate/predictor.h"

namespace runner {
class ConfigReader;
class RunContext;
}  // namespace runner

namespace stages {

/// The decision that an evaluation uses: the one fitted on validation data and saved with the
/// weights, or values from the recipe.
struct DecisionOptions {
  std::optional<double> temperature;  ///< nullopt: the fitted one
  std::optional<double> threshold;    ///< nullopt: the fitted one
  bool ignores_cut_points = false;
};

/// Returns the decision for the checkpoint's classes. Throws runner::StageError if there is a
/// threshold but not exactly two classes.
FittedDecision decision_for(const Checkpoint& checkpoint, const DecisionOptions& options);

/// The effect of a decision: additional metrics and members of metrics.json.
struct DecisionEffect {
  std::vector<std::pair<std::string, double>> values;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
};

/// Divides the logits of `samples` by the temperature, sets the predicted classes, and reports
/// both. Returns the log loss and calibration error without the temperature, if it is not 1, and
/// the sensitivity and specificity for the second class, if there is a threshold.
DecisionEffect apply_decision(const FittedDecision& decision, const DecisionOptions& options,
                              std::int64_t calibration_bins, ClassifiedSamples& samples,
                              runner::RunContext& context);

}  // namespace stages
