#pragma once

#include "stages/train/schedule.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// Reads a mapping of schemas/train/schedule/.
Schedule read_schedule(runner::ConfigReader& reader);

}  // namespace stages
