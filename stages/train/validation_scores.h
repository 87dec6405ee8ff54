#pragma once

#include <map>
#include <string>

#include "stages/train/means.h"

namespace stages {

// How good weights were on the validation data, as their checkpoint remembers it.

/// JSON: {"loss": 0.25, "accuracy": 0.9, …}, without numbers that are not finite.
std::string validation_text(const Means& validation);

/// What `about`, the texts beside weights, says under "validation", by name; empty where it says nothing that can be
/// understood.
std::map<std::string, double> validation_scores(const std::map<std::string, std::string>& about);

}  // namespace stages
