#pragma once

#include <string>

#include "runner/parent/cli/command.h"
#include "runner/shared/error/log_level.h"
#include "runner/shared/error/result.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/parent/run/worker_process.h"

namespace runner {

/// Flags that several verbs have.

/// How much of what its worker does a verb writes down, and how long that may take to stop.
struct LogFlags {
  std::string level;                ///< --log-level, one of kLogLevels; empty: not given
  std::int64_t grace_seconds = 60;  ///< --grace

  /// As --log-level says, else as the variable RETORT_LOG, else info. An unknown word of the variable is an error.
  Result<LogLevel> chosen() const;

  /// The worker beside this program, which tells lines of that level and more severe ones, and is killed where it does
  /// not stop in time.
  Result<WorkerCommand> worker() const;
};

enum class LogPlace { kFile, kStandardError };

/// --log-level, of a verb whose lines go to the log.txt of a run, or that leaves no record and shows them.
void add_log_level(Invocation& verb, LogFlags& flags, LogPlace place);

/// --grace, of a verb that saves where it is asked to stop.
void add_grace(Invocation& verb, LogFlags& flags);

/// Of which nodes the results of earlier runs are taken.
struct ReuseFlags {
  bool all = false;   ///< --reuse
  bool none = false;  ///< --no-reuse

  ReuseOptions::Which which() const;
};

/// --no-reuse; and, described by `all_summary`, --reuse, where that is not empty.
void add_reuse(Invocation& verb, ReuseFlags& flags, const std::string& all_summary = "");

}  // namespace runner
