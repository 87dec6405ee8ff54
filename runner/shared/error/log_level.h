#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace runner {

/// The levels of a log, least severe first. A log of one level contains the lines of that level and
/// of all more severe levels; kOff contains none.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// The names of the levels, for --log-level and RETORT_LOG.
inline constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info",
                                                               "warn",  "error", "off"};

std::string_view name(LogLevel level);
std::optional<LogLevel> log_level_named(std::string_view name);

/// How much is printed on stderr. Results and errors are always printed.
enum class Verbosity {
  kQuiet,    ///< nothing but results and errors
  kNormal,   ///< progress, and the lines of stages
  kVerbose,  ///< also the worker's output
};

}  // namespace runner
