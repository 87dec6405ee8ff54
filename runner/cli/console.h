#pragma once

#include <ostream>

#include "runner/cli/standard_output.h"
#include "runner/error/diagnostic.h"
#include "runner/error/verbosity.h"

namespace runner {

/// Where a verb speaks: results go to `out`, talk to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool color = false;  ///< `err` is a terminal that understands colours
  bool json = false;   ///< results and diagnostics as JSON on `out`
  Verbosity verbosity = Verbosity::kNormal;

  bool is_quiet() const { return verbosity == Verbosity::kQuiet; }
};

/// True if colours may be written to file descriptor `fd`: a terminal, TERM is not "dumb" and NO_COLOR is not set.
bool wants_color(int fd);

/// Reports every diagnostic and returns the exit code: as {"diagnostics": [...]} on `out`, or as text on `err`, where
/// the first 100 are printed and the others counted.
ExitCode report(Console& console, const Diagnostics& diagnostics);

/// How the program ends after a verb that ended with `code`: what it has printed is written out to `standard`, which is
/// `console.out`. Results that could not be written are an error, and the program's exit code unless the verb failed
/// itself; where the reader has closed the pipe, the program ends by SIGPIPE and says nothing, as `cat` does.
ExitCode finish(Console& console, StandardOutput& standard, ExitCode code);

/// Warnings only, on `err`; silent when quiet or when the output is JSON.
void warn(Console& console, const Diagnostics& warnings);

}  // namespace runner
