#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// What `retort evaluate` measures on data that a run was not trained on.
struct EvaluatedData {
  std::vector<std::string>
      overrides;  ///< overrides that use all of a folder for which no split was requested
  std::vector<std::string> lines;  ///< what is measured on each data stage, for the user
};

/// Compares the data stages of two resolved recipes: `before` trained the run, `after` evaluates
/// it. A training split makes no sense in a folder other than the training's. Such a folder is used
/// whole, unless a word of `written`, the overrides that led to `after`, says how to split it, or
/// it has a folder for each split. Relative paths are resolved against `working_folder`.
EvaluatedData data_to_evaluate(const Value& before, const Value& after,
                               std::span<const std::string> written,
                               const std::filesystem::path& working_folder = {});

}  // namespace runner
