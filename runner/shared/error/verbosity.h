#pragma once

namespace runner {

/// How much is said on stderr. Results and errors are not the display's business.
enum class Verbosity {
  kQuiet,    ///< nothing
  kNormal,   ///< progress, and what stages say
  kVerbose,  ///< also what the worker prints
};

}  // namespace runner
