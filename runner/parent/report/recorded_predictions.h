#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/result.h"

namespace runner {

/// What an evaluation of classes has predicted for one sample.
struct RecordedPrediction {
  std::string name;  ///< of the sample, such as its file
  std::string label;
  bool is_right = false;
};

/// Reads predictions.csv in nodes/<node>/ of a run's `folder`, of an evaluation that writes the columns `name`, `label`
/// or `grade`, and `predicted` or `prediction`; sorted by name, samples of one name in their order. kNoResults where
/// there is no such file, kDamagedRecord where it is another one.
Result<std::vector<RecordedPrediction>> read_predictions(const std::filesystem::path& folder, const std::string& node);

}  // namespace runner
