#include "runner/parent/config/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

/// One step of parsing a number from left to right: multiply the result so far by `factor`, then
/// add `addend`. Both are below 128.
struct NumberStep {
  std::uint32_t factor;
  std::uint32_t addend;
};

/// An integer of any size. Each limb holds nine decimal digits, least significant first.
class BigInteger {
 public:
  /// Multiplies by `factor`, then adds `addend`; both are below 2^32.
  void apply(std::uint64_t factor, std::uint64_t addend) {
    std::uint64_t carry = addend;
    for (std::uint64_t& limb : limbs_) {
      carry += limb * factor;
      limb = carry % kLimb;
      carry /= kLimb;
    }
    for (; carry > 0; carry /= kLimb) limbs_.push_back(carry % kLimb);
  }

  std::string digits() const {
    if (limbs_.empty()) return "0";
    std::string result = std::to_string(limbs_.back());
    for (std::size_t i = limbs_.size() - 1; i-- > 0;) {
      const std::string limb = std::to_string(limbs_[i]);
      result += std::string(9 - limb.size(), '0') + limb;
    }
    return result;
  }

 private:
  static constexpr std::uint64_t kLimb = 1'000'000'000;
  std::vector<std::uint64_t> limbs_;
};

/// Returns the decimal digits, without leading zeros, of the number that `steps` produce starting
/// from zero; it may be of any size.
std::string decimal_digits(std::span<const NumberStep> steps) {
  constexpr std::uint64_t kMaxFactor = 1u << 24;  // several steps are combined up to this factor
  BigInteger number;
  std::uint64_t factor = 1, addend = 0;
  for (const NumberStep& step : steps) {
    factor *= step.factor;
    addend = addend * step.factor + step.addend;
    if (factor < kMaxFactor) continue;
    number.apply(factor, addend);
    factor = 1;
    addend = 0;
  }
  number.apply(factor, addend);
  return number.digits();
}

constexpr std::size_t kMostDigits = 4300;  // the same limit as in Python

bool is_binary(char c) { return c == '0' || c == '1' || c == '_'; }
bool is_octal(char c) { return (c >= '0' && c <= '7') || c == '_'; }
bool is_decimal(char c) { return is_digit(c) || c == '_'; }
bool is_hexadecimal(char c) {
  return is_decimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

/// Reads a string from left to right.
struct Cursor {
  std::string_view rest;

  bool done() const { return rest.empty(); }
  bool take(char c) {
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  }
  bool take_sign() { return take('+') || take('-'); }
  template <typename Predicate>
  std::size_t take_while(Predicate predicate) {
    const std::size_t size = std::ranges::find_if_not(rest, predicate) - rest.begin();
    rest.remove_prefix(size);
    return size;
  }
  /// Takes `:` and a number below 60, one or more times; false if there is none.
  bool take_sexagesimal() {
    bool any = false;
    while (!rest.empty() && rest.front() == ':') {
      const std::string_view digits = rest.substr(1, rest.find_first_not_of("0123456789", 1) - 1);
      if (digits.empty() || digits.size() > 2 || (digits.size() == 2 && digits.front() > '5'))
        return false;
      rest.remove_prefix(1 + digits.size());
      any = true;
    }
    return any;
  }
};

std::string without_underscores(std::string_view text) {
  std::string result(text);
  std::erase(result, '_');
  return result;
}

/// Returns the base of the integer `text`, 60 for sexagesimal; 0 if it is not an integer.
int integer_base(std::string_view text) {
  Cursor cursor{text};
  cursor.take_sign();
  if (cursor.done() || !is_digit(cursor.rest.front())) return 0;
  if (cursor.rest.front() == '0') {
    cursor.take('0');
    if (cursor.done()) return 10;
    if (cursor.take('b')) return cursor.take_while(is_binary) && cursor.done() ? 2 : 0;
    if (cursor.take('x')) return cursor.take_while(is_hexadecimal) && cursor.done() ? 16 : 0;
    return cursor.take_while(is_octal) && cursor.done() ? 8 : 0;
  }
  cursor.take_while(is_decimal);
  if (cursor.done()) return 10;
  return cursor.take_sexagesimal() && cursor.done() ? 60 : 0;
}

/// Returns the value of a:b:c in base 60; the last part may have a fraction.
double sexagesimal(std::string_view digits) {
  double total = 0;
  while (true) {
    const std::size_t colon = digits.find(':');
    total = total * 60 + parse_double(digits.substr(0, colon));
    if (colon == std::string_view::npos) return total;
    digits.remove_prefix(colon + 1);
  }
}

/// Returns the steps that parse digits in `base`: one per digit or, in base 60, one per part after
/// a colon.
std::vector<NumberStep> steps_of(std::string_view digits, int base) {
  std::vector<NumberStep> steps;
  const std::size_t colon = std::min(digits.find(':'), digits.size());
  for (const char c : digits.substr(0, colon)) {
    const int value = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
    steps.push_back(
        {static_cast<std::uint32_t>(base == 60 ? 10 : base), static_cast<std::uint32_t>(value)});
  }
  for (const char c : digits.substr(colon)) {
    if (c == ':') steps.push_back({60, 0});
    else steps.back().addend = steps.back().addend * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return steps;
}

/// Parses an integer in `base`; nullopt if it is too long.
std::optional<PlainScalar> read_integer(std::string_view text, int base) {
  std::string digits = without_underscores(text);
  const bool negative = digits.front() == '-';
  if (negative || digits.front() == '+') digits.erase(0, 1);
  if (base == 2 || base == 16) digits.erase(0, 2);
  if (digits.empty()) return PlainScalar{std::string(text)};
  if (digits.size() > kMostDigits) return std::nullopt;
  digits = (negative ? "-" : "") + decimal_digits(steps_of(digits, base));
  std::int64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (result.ec != std::errc()) return PlainScalar{std::move(digits), ScalarForm::kBigInteger};
  return PlainScalar{number};
}

bool take_exponent(Cursor& cursor, bool needs_sign) {
  if (!cursor.take('e') && !cursor.take('E')) return false;
  return (cursor.take_sign() || !needs_sign) && cursor.take_while(is_digit) > 0;
}

bool is_float(std::string_view text) {
  Cursor cursor{text};
  if (text.front() == '.') {  // after a leading point, an exponent must have a sign
    cursor.take('.');
    const std::string_view digits = cursor.rest;
    const std::size_t size = cursor.take_while(is_decimal);
    if (std::ranges::none_of(digits.substr(0, size), is_digit)) return false;
    return cursor.done() || (take_exponent(cursor, true) && cursor.done());
  }
  cursor.take_sign();
  if (cursor.done() || !is_digit(cursor.rest.front())) return false;
  cursor.take_while(is_decimal);
  if (cursor.take('.')) {
    cursor.take_while(is_decimal);
    return cursor.done() || (take_exponent(cursor, false) && cursor.done());
  }
  if (cursor.take_sexagesimal())
    return cursor.take('.') && (cursor.take_while(is_decimal), cursor.done());
  return take_exponent(cursor, false) && cursor.done();
}

double read_float(std::string_view text) {
  std::string digits = without_underscores(text);
  if (digits.find(':') == std::string::npos) return parse_double(digits);
  const bool negative = digits.front() == '-';
  if (negative || digits.front() == '+') digits.erase(0, 1);
  const double total = sexagesimal(digits);
  return negative ? -total : total;
}

}  // namespace

std::optional<PlainScalar> plain_scalar(std::string_view text) {
  if (one_of(text, {"", "~", "null", "Null", "NULL"})) return PlainScalar{nullptr};
  if (one_of(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}))
    return PlainScalar{true};
  if (one_of(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}))
    return PlainScalar{false};
  const PlainScalar as_text{std::string(text)};
  if (!is_digit(text.front()) && !one_of(text.substr(0, 1), {"+", "-", "."})) return as_text;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (one_of(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"}))
    return PlainScalar{kInfinity};
  if (one_of(text, {"-.inf", "-.Inf", "-.INF"})) return PlainScalar{-kInfinity};
  if (one_of(text, {".nan", ".NaN", ".NAN"}))
    return PlainScalar{std::numeric_limits<double>::quiet_NaN()};
  if (const int base = integer_base(text)) return read_integer(text, base);
  if (is_float(text)) return PlainScalar{read_float(text)};
  return as_text;
}

double parse_double(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec == std::errc::result_out_of_range) {
    const std::size_t exponent = text.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos
                          ? text.substr(exponent + 1).starts_with('-')
                          : text.find_first_not_of("0.") > text.find('.');
    number = tiny ? 0 : std::numeric_limits<double>::infinity();
  }
  return negative ? -number : number;
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                 std::chars_format::scientific)
                       .ptr;
  std::string digits(buffer.data(), end);
  const std::string sign = digits.front() == '-' ? "-" : "";
  digits.erase(0, sign.size());
  const std::size_t e = digits.find('e');
  int exponent = 0;
  std::from_chars(digits.data() + e + 1 + (digits[e + 1] == '+'), digits.data() + digits.size(),
                  exponent);
  digits.resize(e);
  std::erase(digits, '.');
  if (exponent < -4 || exponent >= 16) {
    const std::string power = std::to_string(std::abs(exponent));
    const std::string fraction = digits.size() > 1 ? "." + digits.substr(1) : "";
    return sign + digits[0] + fraction + (exponent < 0 ? "e-" : "e+") +
           (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(-exponent - 1, '0') + digits;
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string revealed_text(const Value& scalar) {
  if (const auto* flag = std::get_if<bool>(&scalar.data)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&scalar.data))
    return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&scalar.data)) return float_text(*number);
  if (const auto* text = scalar.reveal()) return *text;
  return scalar.is_null() ? "null" : "";
}

std::string scalar_text(const Value& scalar) {
  return scalar.secret_as.empty() ? revealed_text(scalar) : scalar.secret_as;
}

}  // namespace runner
