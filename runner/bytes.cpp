#include "runner/bytes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace runner {

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {  // so that it never takes four digits
    value /= 1024;
    ++unit;
  }
  const bool wants_fraction = unit > 0 && value < 9.95;
  std::array<char, 64> text;
  const int size = std::snprintf(text.data(), text.size(), wants_fraction ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
  return {text.data(), std::min<std::size_t>(size, text.size() - 1)};
}

std::optional<std::int64_t> bytes_from(std::string_view text) {
  double unit = 0;
  if (text.ends_with("MiB")) unit = 0x1p20;
  if (text.ends_with("GiB")) unit = 0x1p30;
  if (unit == 0) return std::nullopt;
  text.remove_suffix(3);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  constexpr double kLimit = 1e9;  // GiB, far below what an int64 holds
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= kLimit)) return std::nullopt;
  return static_cast<std::int64_t>(value * unit);
}

}  // namespace runner
