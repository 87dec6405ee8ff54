#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

namespace runner {

/// Parses a complete string such as "1e-3"; nullopt if it is not a number, or is not finite.
inline std::optional<double> finite_number(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  const bool is_finite = read.ec == std::errc() && read.ptr == end && std::isfinite(number);
  return is_finite ? std::optional(number) : std::nullopt;
}

}  // namespace runner
