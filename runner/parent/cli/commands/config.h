#pragma once

#include "runner/parent/cli/command.h"

namespace runner {

/// What of a composition `config show` shows, and `run` with --cfg or --info.
struct ConfigView {
  std::string package;   ///< only what is below this key
  bool resolve = false;  ///< defaults and interpolations filled in
  std::string info;      ///< how it was composed instead: defaults, defaults-tree or searchpath
  bool origin = false;   ///< each value with the file or override it came from
  std::string explain;   ///< the key whose writes are listed instead
};

/// --package, --resolve and --info.
void add_views(Invocation& verb, ConfigView& view);

ExitCode show_config(const NamedRecipe& named, const ConfigView& view, Console& console);

}  // namespace runner
