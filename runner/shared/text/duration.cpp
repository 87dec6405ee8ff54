#include "runner/shared/text/duration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace runner {

std::string duration_text(double seconds) {
  const auto total = std::isfinite(seconds) ? std::llround(std::clamp(seconds, 0.0, 3.6e9)) : 0;
  std::array<char, 32> text;
  const int size = std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", total / 3600,
                                 total / 60 % 60, total % 60);
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace runner
