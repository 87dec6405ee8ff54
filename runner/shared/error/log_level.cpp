#include "runner/shared/error/log_level.h"

#include <algorithm>

namespace runner {

std::string_view name(LogLevel level) { return kLogLevels[static_cast<std::size_t>(level)]; }

std::optional<LogLevel> log_level_named(std::string_view name) {
  const auto found = std::ranges::find(kLogLevels, name);
  if (found == kLogLevels.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kLogLevels.begin());
}

}  // namespace runner
