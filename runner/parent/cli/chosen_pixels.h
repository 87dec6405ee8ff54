#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/cli/launched.h"
#include "runner/parent/cli/prepare.h"
#include "runner/shared/value/value.h"

namespace runner {

/// The value of an option that a Python network determines (pixels_from_network()).
struct ChosenPixels {
  std::string stage, option;          ///< "data", "normalize"
  Value value;                        ///< the image size, or a mapping with mean and std
  std::string override_text() const;  ///< "data.normalize={mean: [0.5, …], std: [0.5, …]}"
};

/// Asks the recipe's Python networks for the options that they determine, and says which values
/// they have; starts no Python if there are none. Returns an error for an option that no network
/// specifies or on which networks disagree, and the errors of worker_for() and of the Python code.
Result<std::vector<ChosenPixels>> chosen_pixels(const Recipe& recipe, const Graph& graph,
                                                const LogFlags& log, Console& console);

/// Like prepare_launched(), but asks the recipe's Python networks for the options that they
/// determine, as if the command line had set them: appends overrides with the values to `named`.
Result<PreparedRecipe> prepare_with_pixels(NamedRecipe& named,
                                           const std::optional<LaunchedRank>& launched,
                                           const LogFlags& log, Console& console);

}  // namespace runner
