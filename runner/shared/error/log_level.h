#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace runner {

/// How much a log keeps: lines of its level and of the more severe ones that follow; kOff keeps
/// none.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Their names, for --log-level and RETORT_LOG.
inline constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info",
                                                               "warn",  "error", "off"};

std::string_view name(LogLevel level);
std::optional<LogLevel> log_level_named(std::string_view name);

/// How much is printed on stderr. Results and errors are printed regardless.
enum class Verbosity {
  kQuiet,    ///< nothing
  kNormal,   ///< progress, and the lines of stages
  kVerbose,  ///< also the worker's output
};

}  // namespace runner
