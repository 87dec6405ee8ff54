#pragma once

#include "stages/artifact/dataset.h"

namespace stages {

/// Throws runner::StageError where a training set has no classes, or its validation set, null: there is none, others or
/// in another order.
void check_same_classes(const Dataset& train, const Dataset* validation);

}  // namespace stages
