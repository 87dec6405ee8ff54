#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace runner {

/// How much a log keeps: the lines of its level and of those after it; kOff keeps none.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Their names, as --log-level and RETORT_LOG have them.
inline constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info",
                                                               "warn",  "error", "off"};

std::string_view name(LogLevel level);
std::optional<LogLevel> log_level_named(std::string_view name);

/// How much is said on stderr. Results and errors are not the display's business.
enum class Verbosity {
  kQuiet,    ///< nothing
  kNormal,   ///< progress, and what stages say
  kVerbose,  ///< also what the worker prints
};

}  // namespace runner
