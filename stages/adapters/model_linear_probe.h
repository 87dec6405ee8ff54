#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/model/fine_tuned.h"

namespace runner {
class ConfigReader;
class Stage;
}  // namespace runner

namespace stages {

/// The options of model.linear_probe and model.full for the head's initial weights.
struct HeadOptions {
  HeadStart start = HeadStart::kUniform;
  std::vector<std::string> templates;
};

/// Reads `head_start` and `templates`.
HeadOptions read_head(runner::ConfigReader& reader);

/// Creates the stage of model.linear_probe, model.lora or, for a transformer, model.full. Reads
/// `backbone` and `num_classes`, which these kinds share, into `config`; its other options must
/// already be set. If options are invalid, returns all their errors instead.
runner::Result<std::unique_ptr<runner::Stage>> fine_tuned_stage(runner::ConfigReader& reader,
                                                                FineTunedConfig config);

}  // namespace stages
