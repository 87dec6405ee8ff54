#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace runner {

/// Log levels, least severe first. A log at a given level contains the lines at that level and all
/// more severe ones; at kOff, it contains none.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// The level names used by --log-level and RETORT_LOG.
inline constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info",
                                                               "warn",  "error", "off"};

std::string_view name(LogLevel level);
std::optional<LogLevel> log_level_named(std::string_view name);

/// How much is printed to stderr. Results and errors are always printed.
enum class Verbosity {
  kQuiet,    ///< nothing but results and errors
  kNormal,   ///< progress, and lines from stages
  kVerbose,  ///< everything above, and the worker's output
};

}  // namespace runner
