#pragma once

#include <memory>

#include "runner/shared/error/diagnostic.h"
#include "stages/model/fine_tuned.h"

namespace runner {
class ConfigReader;
class Stage;
}  // namespace runner

namespace stages {

/// The stage of a model on a frozen backbone: reads `backbone` and `num_classes`, which both kinds
/// have, into `config`, whose own options have been read. Everything wrong with any of them is in
/// the result.
runner::Result<std::unique_ptr<runner::Stage>> fine_tuned_stage(runner::ConfigReader& reader,
                                                                FineTunedConfig config);

}  // namespace stages
