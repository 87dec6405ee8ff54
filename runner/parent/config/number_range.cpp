#include "runner/parent/config/number_range.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "runner/parent/config/scalar.h"

namespace runner {
namespace {

using Wide = __int128;
constexpr int kMaxDigits = 36;  // small enough that the sum of two such numbers also fits

/// The number digits · 10^exponent.
struct Decimal {
  Wide digits = 0;
  int exponent = 0;
};

/// Parses a decimal number; nullopt if it has too many digits.
std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal result;
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int count = 0;
  bool is_fraction = false;
  for (; !text.empty() && text.front() != 'e'; text.remove_prefix(1)) {
    if (text.front() == '.') {
      is_fraction = true;
      continue;
    }
    if (count > 0 || text.front() != '0') ++count;
    if (count > kMaxDigits) return std::nullopt;
    result.digits = result.digits * 10 + (text.front() - '0');
    if (is_fraction) --result.exponent;
  }
  if (!text.empty()) {
    int exponent = 0;
    const std::size_t sign = text[1] == '+';
    std::from_chars(text.data() + 1 + sign, text.data() + text.size(), exponent);
    result.exponent += exponent;
  }
  while (result.digits != 0 && result.digits % 10 == 0) {
    result.digits /= 10;
    ++result.exponent;
  }
  if (negative) result.digits = -result.digits;
  return result;
}

/// Returns the digits of `number` in units of 10^exponent; nullopt if there are too many.
std::optional<Wide> in_units(const Decimal& number, int exponent) {
  Wide digits = number.digits, limit = 1;
  for (int i = 0; i < kMaxDigits; ++i) limit *= 10;
  if (digits == 0) return digits;
  for (int i = number.exponent; i > exponent; --i) {
    digits *= 10;
    if (digits > limit || digits < -limit) return std::nullopt;
  }
  return digits;
}

std::string text_of(Wide number) {
  if (number == 0) return "0";
  std::string text;
  const bool negative = number < 0;
  for (; number != 0; number /= 10)
    text += static_cast<char>('0' + std::abs(static_cast<int>(number % 10)));
  if (negative) text += '-';
  return {text.rbegin(), text.rend()};
}

bool is_integer(const Value& number) { return !std::holds_alternative<double>(number.data); }

/// Returns `number` as a decimal string; booleans count as 0 and 1.
std::string decimal_text(const Value& number) {
  if (const auto* flag = std::get_if<bool>(&number.data)) return *flag ? "1" : "0";
  return scalar_text(number);
}

}  // namespace

Result<NumberRange> NumberRange::make(const Sweep& range) {
  const auto fail = [&](const Value& at, std::string message, std::string help) {
    const Location where = at.where.source ? at.where : range.where;
    return Diagnostic{ErrorCode::kBadSweep, where, "", std::move(message), std::move(help)};
  };
  NumberRange result;
  result.where_ = range.where;
  Decimal numbers[3];
  int exponent = 0;
  const Value* bounds[] = {&range.start, &range.stop, &range.step};
  for (int i = 0; i < 3; ++i) {
    const auto* real = std::get_if<double>(&bounds[i]->data);
    if (real && !std::isfinite(*real)) {
      return fail(*bounds[i], "a range cannot count to " + float_text(*real),
                  "use a finite number");
    }
    result.are_integers_ = result.are_integers_ && is_integer(*bounds[i]);
    const auto read = read_decimal(decimal_text(*bounds[i]));
    if (!read) return fail(*bounds[i], "a number in the range has more than 36 digits", "");
    numbers[i] = *read;
    exponent = std::min(exponent, read->exponent);
  }
  if (numbers[2].digits == 0)
    return fail(range.step, "a range with step 0 never ends", "use another step");
  Wide units[3];
  for (int i = 0; i < 3; ++i) {
    const auto digits = in_units(numbers[i], exponent);
    if (!digits) {
      return fail(*bounds[i],
                  "written with as many decimal places as the other numbers in the range, this "
                  "number has more than 36 digits",
                  "use fewer decimal places, or smaller numbers");
    }
    units[i] = *digits;
  }
  result.start_ = units[0];
  result.step_ = units[2];
  result.exponent_ = exponent;
  const Wide distance = units[2] > 0 ? units[1] - units[0] : units[0] - units[1];
  const Wide step = units[2] > 0 ? units[2] : -units[2];
  const Wide size = distance > 0 ? (distance + step - 1) / step : 0;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  result.size_ = size > static_cast<Wide>(kMost) ? kMost : static_cast<std::uint64_t>(size);
  return result;
}

Value NumberRange::operator[](std::uint64_t index) const {
  return number(start_ + step_ * static_cast<Wide>(index), are_integers_);
}

Sweep NumberRange::reversed(Sweep range) const {
  const bool whole_step = is_integer(range.step), whole_start = is_integer(range.start);
  range.start = number(start_ + step_ * static_cast<Wide>(size_ - 1), are_integers_);
  range.stop = number(start_ - step_, whole_start && whole_step);
  range.step = number(-step_, whole_step);
  return range;
}

Value NumberRange::number(Wide units, bool is_integer) const {
  if (!is_integer) return {parse_double(text_of(units) + "e" + std::to_string(exponent_)), where_};
  for (int i = exponent_; i < 0; ++i) units /= 10;
  const std::string digits = text_of(units);
  std::int64_t integer = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), integer);
  if (result.ec == std::errc()) return {integer, where_};
  Value value{digits, where_};
  value.form = ScalarForm::kBigInteger;
  return value;
}

}  // namespace runner
