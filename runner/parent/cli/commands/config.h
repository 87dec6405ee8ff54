#pragma once

#include "runner/parent/cli/command.h"

namespace runner {

/// Which view of a composition to show: `config show`, and `run` with --cfg or --info.
struct ConfigView {
  std::string package;   ///< show only the part below this key
  bool resolve = false;  ///< fill in defaults and interpolations
  std::string info;      ///< show how the recipe was composed instead: defaults, defaults-tree or
                         ///< searchpath
  bool origin = false;   ///< show which file or override each value came from
  std::string explain;   ///< list everything that set this key instead
};

/// Adds --package, --resolve and --info to `verb`.
void add_views(Invocation& verb, ConfigView& view);

ExitCode show_config(const NamedRecipe& named, const ConfigView& view, Console& console);

}  // namespace runner
