#pragma once

#include <string>
#include <vector>

namespace runner {

/// The recipe that a command line names, and what it says about it.
struct NamedRecipe {
  std::string name = {};                      ///< a recipe's name or file
  std::string config_name = {};               ///< the same by --config-name; parse_command_line() puts it into `name`
  std::vector<std::string> overrides = {};    ///< key=value, as typed
  std::string config_path = {};               ///< the folder to look for recipes in instead of the working directory
  std::vector<std::string> config_dirs = {};  ///< further folders with recipes, or with recipes/ and experiments/
  bool strict = false;                        ///< what composition warns of is an error
};

}  // namespace runner
