#include "runner/parent/config/interval.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "runner/parent/config/scalar.h"

namespace runner {
namespace {

constexpr int kDrawnDigits = 6;
constexpr double kLargestExact = 9007199254740992.0;  // 2^53; integers up to this are exact

std::optional<double> bound_of(const Value& value) {
  double number = 0;
  if (const auto* real = std::get_if<double>(&value.data)) number = *real;
  else if (const auto* integer = std::get_if<std::int64_t>(&value.data))
    number = static_cast<double>(*integer);
  else return std::nullopt;
  if (!(std::abs(number) <= std::numeric_limits<double>::max() / 4)) return std::nullopt;
  return number;
}

double rounded(double number) {
  std::array<char, 32> text{};
  char* const end = std::to_chars(text.begin(), text.end(), number, std::chars_format::scientific,
                                  kDrawnDigits - 1)
                        .ptr;
  double result = number;
  std::from_chars(text.begin(), end, result);
  return result;
}

}  // namespace

Result<Interval> Interval::make(const Sweep& interval) {
  const auto fail = [&](std::string message, std::string help) {
    return Diagnostic{ErrorCode::kBadSweep, interval.where, "", std::move(message),
                      std::move(help)};
  };
  Interval result;
  result.where_ = interval.where;
  for (const std::string& tag : interval.tags) {
    if (tag != "log")
      return fail("an interval has no tag '" + tag + "'", "write tag(log,interval(start,end))");
    result.is_logarithmic_ = true;
  }
  const auto start = bound_of(interval.start), stop = bound_of(interval.stop);
  if (!start || !stop)
    return fail("the bounds of an interval must be finite numbers", "write interval(0.001,0.1)");
  result.start_ = *start;
  result.stop_ = *stop;
  result.is_integer_ = std::holds_alternative<std::int64_t>(interval.start.data) &&
                       std::holds_alternative<std::int64_t>(interval.stop.data);
  if (!(*start < *stop)) {
    return fail("the interval from " + scalar_text(interval.start) + " to " +
                    scalar_text(interval.stop) + " is empty",
                "its end must be above its start");
  }
  if (result.is_logarithmic_ && *start <= 0)
    return fail("a logarithmic interval starts at " + scalar_text(interval.start),
                "start above 0, or leave tag(log,...) out");
  if (result.is_integer_ && std::max(std::abs(*start), std::abs(*stop)) > kLargestExact)
    return fail("integers up to 9007199254740992 can be drawn", "use smaller bounds");
  return result;
}

std::uint64_t Interval::size() const {
  return is_integer_ ? static_cast<std::uint64_t>(stop_ - start_)
                     : std::numeric_limits<std::uint64_t>::max();
}

Value Interval::at(std::uint64_t draw) const {
  const double fraction = static_cast<double>(draw >> 11) * 0x1p-53;
  double number = is_logarithmic_ ? start_ * std::exp(fraction * std::log(stop_ / start_))
                                  : start_ + fraction * (stop_ - start_);
  if (is_integer_) {
    number = std::clamp(std::floor(number), start_, stop_ - 1);
    return {static_cast<std::int64_t>(number), where_};
  }
  const double shown = rounded(number);
  if (shown >= start_ && shown < stop_) number = shown;
  if (number < start_ || number >= stop_) number = start_;  // possible only through rounding
  return {number, where_};
}

}  // namespace runner
