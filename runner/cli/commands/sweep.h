#pragma once

#include "runner/cli/command.h"
#include "runner/cli/shared_flags.h"

namespace runner {

/// How `retort sweep` runs what it lists.
struct SweepFlags {
  NamedRecipe recipe;
  bool dry_run = false;  ///< list the trials and start none
  std::int64_t slots = 1, retries = 0, time_out_minutes = 0;
  bool fail_fast = false;
  ReuseFlags reuse;
  bool force = false;  ///< resume although inputs are not what they were
  LogFlags log;
  std::string metric = "auto";  ///< that trials are compared by
};

/// Runs every trial of a sweep in a folder of its own, or lists them.
ExitCode begin_sweep(const SweepFlags& flags, Console& console);

}  // namespace runner
