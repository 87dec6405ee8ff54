#include "experiments/oom_claims/text.h"

#include <cmath>
#include <cstdio>

namespace oom_claims {
namespace {

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string size(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1000 << 20) return printed("%.2f GiB", value / (1 << 30));
  if (bytes >= 1000 << 10) return printed("%.1f MiB", value / (1 << 20));
  if (bytes >= 1000) return printed("%.1f KiB", value / (1 << 10));
  return std::to_string(bytes) + " B";
}

std::string change(std::int64_t before, std::int64_t now) {
  const double percent = 100.0 * static_cast<double>(now - before) / static_cast<double>(before);
  if (now == before) return "+0%";
  return printed(std::abs(percent) < 10 ? "%+.1f%%" : "%+.0f%%", percent);
}

std::string one_digit(double error) {
  if (error == 0) return "0";
  if (error < 1e-12) return "below 1e-12";
  int exponent = static_cast<int>(std::floor(std::log10(error)));
  long digit = std::lround(error / std::pow(10, exponent));
  if (digit == 10) digit = 1, ++exponent;
  return exponent == 0 ? std::to_string(digit)
                       : std::to_string(digit) + "e" + std::to_string(exponent);
}

std::string magnitude(double error) {
  return "1e" + std::to_string(std::lround(std::log10(error)));
}

}  // namespace oom_claims
