#include "runner/parent/svg/ticks.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

namespace runner {
namespace {

struct Step {
  int mantissa = 1, exponent = 0;  // mantissa * 10^exponent
  double size() const {
    return exponent < 0 ? mantissa / std::pow(10.0, -exponent) : mantissa * std::pow(10.0, exponent);
  }
};

Step next(Step step) {
  switch (step.mantissa) {
    case 1:
      return {2, step.exponent};
    case 2:
      return {5, step.exponent};
    default:
      return {1, step.exponent + 1};
  }
}

double marks(double low, double high, double step) { return std::ceil(high / step) - std::floor(low / step) + 1; }

std::string label(double value, int exponent) {
  std::array<char, 64> text;
  const bool is_extreme = exponent > 5 || exponent < -6;
  const auto result = is_extreme ? std::to_chars(text.data(), text.data() + text.size(), value)
                                 : std::to_chars(text.data(), text.data() + text.size(), value,
                                                 std::chars_format::fixed, std::max(0, -exponent));
  return {text.data(), result.ptr};
}

Ticks ticks(double low, double high, int most, int smallest_exponent) {
  assert(std::isfinite(low) && std::isfinite(high) && most >= 3);
  if (low > high) std::swap(low, high);
  // What a double cannot tell apart is one place, and a scale is needed all the same.
  if (high - low <= 1e-12 * std::max(std::abs(low), std::abs(high))) {
    const double least = low == 0 || smallest_exponent == 0 ? 1 : 0, reach = std::max(std::abs(low) / 2, least);
    low -= reach;
    high += reach;
  }
  Step step{1, std::max(smallest_exponent, static_cast<int>(std::floor(std::log10(high / most - low / most))) - 1)};
  while (marks(low, high, step.size()) > most) step = next(step);
  Ticks result;
  const double first = std::floor(low / step.size()), count = marks(low, high, step.size());
  for (double i = 0; i < count; ++i) {
    const double multiple = (first + i) * step.mantissa;
    const double value =
        step.exponent < 0 ? multiple / std::pow(10.0, -step.exponent) : multiple * std::pow(10.0, step.exponent);
    result.values.push_back(value == 0 ? 0 : value);
    result.labels.push_back(label(result.values.back(), step.exponent));
  }
  result.low = result.values.front();
  result.high = result.values.back();
  return result;
}

}  // namespace

Ticks nice_ticks(double low, double high, int most) { return ticks(low, high, most, -300); }

Ticks whole_ticks(double low, double high, int most) { return ticks(low, high, most, 0); }

}  // namespace runner
