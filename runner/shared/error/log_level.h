#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace runner {

/// How much a log keeps: the lines of its level and of those after it; kOff keeps none.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Their names, as --log-level and RETORT_LOG have them.
inline constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info", "warn", "error", "off"};

std::string_view name(LogLevel level);
std::optional<LogLevel> log_level_named(std::string_view name);

}  // namespace runner
