#pragma once

#include <memory>

#include "runner/shared/error/diagnostic.h"
#include "stages/model/fine_tuned.h"

namespace runner {
class ConfigReader;
class Stage;
}  // namespace runner

namespace stages {

/// Makes the stage of a model on a frozen backbone. Reads `backbone` and `num_classes`, which both
/// kinds have, into `config`, whose other options have been read. The result holds all errors of
/// these options.
runner::Result<std::unique_ptr<runner::Stage>> fine_tuned_stage(runner::ConfigReader& reader,
                                                                FineTunedConfig config);

}  // namespace stages
