#pragma once

#include <string>

#include "runner/cli/command.h"
#include "runner/error/log_level.h"
#include "runner/error/result.h"

namespace runner {

/// How much a verb that leaves a log.txt writes into it.
struct LogFlags {
  std::string level;  ///< --log-level, one of kLogLevels; empty: not given

  /// As --log-level says, else as the variable RETORT_LOG, else info. An unknown word of the variable is an error.
  Result<LogLevel> chosen() const;
};

/// --log-level.
void add_log_level(Invocation& verb, LogFlags& flags);

}  // namespace runner
