#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// What `retort evaluate` measures of data that a run was not trained on.
struct EvaluatedData {
  std::vector<std::string>
      overrides;  ///< that take all of a folder of which no share was asked for
  std::vector<std::string>
      lines;  ///< for the person who watches: what is measured of each data stage
};

/// Compares the data stages of the recipe `before`, by which a run was trained, and `after`, by
/// which it is to be evaluated, both resolved. A share for training has no use in a folder that is
/// not the training's: all of it is taken, unless a word of `written`, the overrides that led to
/// `after`, says how it is split, or it has folders for its parts. Relative paths stand in
/// `working_folder`.
EvaluatedData data_to_evaluate(const Value& before, const Value& after,
                               std::span<const std::string> written,
                               const std::filesystem::path& working_folder = {});

}  // namespace runner
