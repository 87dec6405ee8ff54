#pragma once

#include <string>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/exit_code.h"

namespace runner {

/// How a program ends that `signal` has stopped before its work was done: `has_saved` says whether a resumed run
/// continues from there. SIGHUP counts as SIGTERM.
ExitCode exit_code_of_stop(int signal, bool has_saved);

/// That `signal` has stopped what leaves no record, `doing` something, "after waiting 2 min for a GPU": kInterrupted
/// of SIGINT, kTerminated of others.
Diagnostic stopped_by(int signal, const std::string& doing = "");

/// Is `code` one that exit_code_of_stop() gives?
bool says_stopped(ExitCode code);

}  // namespace runner
