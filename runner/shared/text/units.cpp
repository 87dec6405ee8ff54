#include "runner/shared/text/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace runner {
namespace {

constexpr std::int64_t kKiB = 1 << 10, kMiB = kKiB << 10, kGiB = kMiB << 10;

/// Parses at most `most` digits; nullopt for anything else, including no digits.
std::optional<std::int64_t> digits(std::string_view text, std::size_t most) {
  const bool is_number =
      !text.empty() && text.size() <= most &&
      std::ranges::all_of(text, [](char letter) { return letter >= '0' && letter <= '9'; });
  if (!is_number) return std::nullopt;
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Returns `value` with `digits` decimals and its unit: "1.21 GiB".
std::string decimal(double value, int digits, const char* unit) {
  std::array<char, 64> text;
  const int size = std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, unit);
  return {text.data(), std::min<std::size_t>(size, text.size() - 1)};
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {  // keeps the number below four digits
    value /= 1024;
    ++unit;
  }
  const bool wants_fraction = unit > 0 && value < 9.95;
  std::array<char, 64> text;
  const int size = std::snprintf(text.data(), text.size(), wants_fraction ? "%.1f %s" : "%.0f %s",
                                 value, kUnits[unit]);
  return {text.data(), std::min<std::size_t>(size, text.size() - 1)};
}

std::string size_text(std::int64_t bytes) {
  const double value = static_cast<double>(bytes);
  // Choose the unit by the number as printed: 1023.96 MiB is printed as 1.00 GiB.
  const double size = value < 0 ? -value : value;
  if (size >= kGiB - 0.05 * kMiB) return decimal(value / kGiB, 2, "GiB");
  if (size >= kMiB - 0.05 * kKiB) return decimal(value / kMiB, 1, "MiB");
  if (size >= kKiB) return decimal(value / kKiB, 1, "KiB");
  return std::to_string(bytes) + " B";
}

std::optional<std::int64_t> bytes_from(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> kSizeUnits = {
      {{"GiB", kGiB}, {"MiB", kMiB}, {"GB", 1'000'000'000}, {"MB", 1'000'000}}};
  const auto found =
      std::ranges::find_if(kSizeUnits, [&](const auto& one) { return text.ends_with(one.first); });
  if (found == kSizeUnits.end()) return std::nullopt;
  const std::int64_t unit = found->second;
  text.remove_suffix(found->first.size());
  const std::size_t point = text.find('.');
  const auto whole = digits(text.substr(0, point), 9);
  if (!whole) return std::nullopt;
  if (point == text.npos) return *whole * unit;
  const std::string_view fraction = text.substr(point + 1);
  const auto thousandths = digits(
      std::string(fraction) + std::string(3 - std::min<std::size_t>(fraction.size(), 3), '0'), 3);
  if (!thousandths || fraction.empty()) return std::nullopt;
  return *whole * unit + *thousandths * unit / 1000;
}

std::string decimal(double value, int places) {
  std::array<char, 400> text;
  std::snprintf(text.data(), text.size(), "%.*f", places, value);
  return text.data();
}

std::string percent(double share) { return decimal(100 * share, 1); }

std::string significant(double value, int digits) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

std::string duration_text(double seconds) {
  const auto total = std::isfinite(seconds) ? std::llround(std::clamp(seconds, 0.0, 3.6e9)) : 0;
  std::array<char, 32> text;
  const int size = std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", total / 3600,
                                 total / 60 % 60, total % 60);
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace runner
