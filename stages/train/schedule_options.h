#pragma once

#include "stages/train/schedule.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// Reads a mapping of schemas/train/schedule/; contradictions become errors of `reader`. `learning_rate` is the
/// optimizer's.
Schedule read_schedule(runner::ConfigReader& reader, double learning_rate);

}  // namespace stages
