#pragma once

#include <string>

#include "runner/parent/record/training_history.h"

namespace runner {

/// training_curves.svg: on the left the loss of training and validation by epoch, on the right the accuracy of
/// validation in %; without one, the loss alone. `name` is the run's. Numbers that are not finite are left out.
/// At least one epoch.
std::string draw_training(const TrainingHistory& history, const std::string& name);

}  // namespace runner
