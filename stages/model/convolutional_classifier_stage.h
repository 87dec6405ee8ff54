#pragma once

#include <memory>

#include "runner/shared/error/result.h"
#include "stages/model/convolutional_classifier.h"

namespace runner {
class ConfigReader;
class Stage;
}  // namespace runner

namespace stages {

/// The stage of such a model: reads what both kinds have, all but `frozen`, into `config`, whose backbone has been
/// read. Everything wrong with any of them is in the result.
runner::Result<std::unique_ptr<runner::Stage>> convolutional_classifier_stage(runner::ConfigReader& reader,
                                                                              ConvolutionalClassifierConfig config);

}  // namespace stages
