#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// The data that `retort evaluate` uses, as overrides and as lines for the user.
struct EvaluatedData {
  std::vector<std::string>
      overrides;  ///< overrides that select the whole folder if no split was requested for it
  std::vector<std::string> lines;  ///< which images of each data stage are evaluated
};

/// Decides which images each data stage of `after`, the resolved recipe of the evaluation, uses.
/// `before` is the resolved recipe of the training run. If a stage uses a different folder than the
/// training run, the training split does not apply, and the whole folder is evaluated. Exceptions:
/// `written` (the overrides that led to `after`) sets the split, or the folder or its table assigns
/// images to parts. Relative paths are resolved against `working_folder`.
EvaluatedData data_to_evaluate(const Value& before, const Value& after,
                               std::span<const std::string> written,
                               const std::filesystem::path& working_folder = {});

}  // namespace runner
