#include "runner/parent/config/cast.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "runner/parent/config/override_value.h"
#include "runner/parent/config/scalar.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\v\f";
  const std::size_t start = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(start, text.find_last_not_of(kBlanks) + 1 - start);
}

/// Returns `text` without the '_' between digits; nullopt if a '_' is not between two digits.
std::optional<std::string> without_separators(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') result += text[i];
    else if (i == 0 || !is_digit(text[i - 1]) || i + 1 == text.size() || !is_digit(text[i + 1]))
      return std::nullopt;
  }
  return result;
}

/// Parses an integer of any length, such as "-12"; `digits` has no '+' sign.
Value integer(std::string digits, Location where) {
  const bool negative = digits.starts_with('-');
  const std::size_t first = std::min(digits.find_first_not_of('0', negative), digits.size() - 1);
  digits.erase(negative, first - negative);
  std::int64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (result.ec == std::errc()) return {number, where};
  Value value{std::move(digits), where};
  value.form = ScalarForm::kBigInteger;
  return value;
}

std::optional<Value> integer_from(std::string_view text, Location where) {
  auto digits = without_separators(without_blanks(text));
  if (!digits) return std::nullopt;
  if (digits->starts_with('+')) digits->erase(0, 1);
  else if (digits->starts_with('-') && digits->find_first_not_of('0', 1) == digits->npos)
    digits->erase(0, 1);
  const std::string_view unsigned_digits =
      std::string_view(*digits).substr(digits->starts_with('-'));
  if (unsigned_digits.empty() || !std::ranges::all_of(unsigned_digits, is_digit))
    return std::nullopt;
  return integer(std::move(*digits), where);
}

/// Parses what Python's float() accepts: digits[.digits][e[+-]digits] with a digit before or after
/// the point, inf or nan. nullopt for anything else.
std::optional<double> float_from(std::string_view text) {
  auto digits = without_separators(without_blanks(text));
  if (!digits) return std::nullopt;
  std::ranges::transform(*digits, digits->begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (digits->starts_with('+')) digits->erase(0, 1);
  std::string_view rest = *digits;
  if (rest.starts_with('-')) rest.remove_prefix(1);
  if (rest == "inf" || rest == "infinity" || rest == "nan") return parse_double(*digits);
  const auto take_digits = [&] {
    const std::size_t size = std::ranges::find_if_not(rest, is_digit) - rest.begin();
    rest.remove_prefix(size);
    return size;
  };
  std::size_t count = take_digits();
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    count += take_digits();
  }
  if (count == 0) return std::nullopt;
  if (rest.starts_with('e')) {
    rest.remove_prefix(rest.size() > 1 && (rest[1] == '+' || rest[1] == '-') ? 2 : 1);
    if (take_digits() == 0) return std::nullopt;
  }
  return rest.empty() ? std::optional(parse_double(*digits)) : std::nullopt;
}

/// Converts values using int(), float(), str() or bool().
class Cast {
 public:
  explicit Cast(const FunctionCall& call) : name_(call.name) {}

  Value operator()(Value value) const {
    if (auto* list = value.list()) {
      for (Value& item : *list) item = (*this)(std::move(item));
      return value;
    }
    if (auto* map = value.map()) {
      for (Entry& entry : *map) entry.value = (*this)(std::move(entry.value));
      return value;
    }
    if (name_ == "bool") return to_bool(value);
    if (value.is_null()) fail(value, "");
    if (name_ == "int") return to_int(value);
    if (name_ == "float") return to_float(value);
    return to_str(value);
  }

  Sweep operator()(Sweep sweep) const {
    if (sweep.kind != Sweep::Kind::kInterval) sweep.tags.clear();
    sweep.shuffle = false;
    switch (sweep.kind) {
      case Sweep::Kind::kSimpleChoice:
      case Sweep::Kind::kChoice:
        for (Value& choice : sweep.choices) choice = (*this)(std::move(choice));
        return sweep;
      case Sweep::Kind::kRange:
      case Sweep::Kind::kInterval:
        if (name_ != "int" && name_ != "float") {
          fail_override(sweep.where, name_ + "() cannot convert a range or an interval",
                        "use int() or float()", ErrorCode::kBadFunctionCall);
        }
        for (Value* bound : {&sweep.start, &sweep.stop}) *bound = (*this)(std::move(*bound));
        if (sweep.kind == Sweep::Kind::kRange) sweep.step = (*this)(std::move(sweep.step));
        return sweep;
      case Sweep::Kind::kGlob:
      case Sweep::Kind::kZip:
        fail_override(sweep.where, name_ + "() converts values, but this is a glob or a zip", "",
                      ErrorCode::kBadFunctionCall);
    }
    return sweep;
  }

 private:
  [[noreturn]] void fail(const Value& value, std::string help) const {
    fail_override(value.where, name_ + "() cannot convert " + describe(value), std::move(help),
                  ErrorCode::kBadFunctionCall);
  }

  Value to_int(const Value& value) const {
    if (const auto* flag = std::get_if<bool>(&value.data))
      return {std::int64_t{*flag}, value.where};
    if (const auto* number = std::get_if<double>(&value.data)) {
      if (!std::isfinite(*number)) fail(value, "");
      std::array<char, 320> digits;
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                     std::trunc(*number), std::chars_format::fixed, 0);
      const std::string text(digits.data(), end.ptr);
      return integer(text == "-0" ? "0" : text, value.where);
    }
    if (!value.text() || value.form == ScalarForm::kBigInteger) return value;
    const auto read = integer_from(*value.text(), value.where);
    if (!read)
      fail(value, float_from(*value.text()) ? "without quotes, its fraction is truncated" : "");
    return *read;
  }

  Value to_float(const Value& value) const {
    if (const auto* flag = std::get_if<bool>(&value.data)) return {*flag ? 1.0 : 0.0, value.where};
    if (const auto* number = std::get_if<std::int64_t>(&value.data)) {
      return {static_cast<double>(*number), value.where};
    }
    if (!value.text()) return value;
    const auto read = float_from(*value.text());
    if (!read || (value.form == ScalarForm::kBigInteger && std::isinf(*read))) fail(value, "");
    return {*read, value.where};
  }

  Value to_str(const Value& value) const { return {scalar_text(value), value.where}; }

  Value to_bool(const Value& value) const {
    if (const auto* number = std::get_if<std::int64_t>(&value.data))
      return {*number != 0, value.where};
    if (const auto* number = std::get_if<double>(&value.data)) return {*number != 0, value.where};
    if (value.is_null()) return {false, value.where};
    if (!value.text()) return value;
    if (value.form == ScalarForm::kBigInteger) return {true, value.where};
    std::string text = *value.text();
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (text != "true" && text != "false")
      fail(value, "the only strings it accepts are true and false");
    return {text == "true", value.where};
  }

  const std::string& name_;
};

}  // namespace

bool is_cast(std::string_view function) {
  return function == "int" || function == "float" || function == "str" || function == "bool";
}

Element cast(FunctionCall call) {
  const Cast convert(call);
  for (auto& [name, element] : call.named) {
    if (name != "value") {
      fail_override(element.where, call.name + "() has no argument '" + name + "'",
                    "its only argument name is value", ErrorCode::kBadFunctionCall);
    }
    if (!call.arguments.empty()) {
      fail_override(element.where,
                    call.name + "() takes its values with or without a name, not both", "",
                    ErrorCode::kBadFunctionCall);
    }
  }
  if (!call.named.empty()) {
    call.arguments.push_back(std::move(call.named.back().second));
    const Value* value = call.arguments[0].value();
    if (value && value->is_null()) call.arguments.clear();
  }
  if (call.arguments.empty()) {
    fail_override(call.where, call.name + "() needs a value", "write " + call.name + "(1)",
                  ErrorCode::kBadFunctionCall);
  }
  if (call.arguments.size() == 1) {
    Element& only = call.arguments[0];
    if (auto* sweep = only.sweep()) return {convert(std::move(*sweep)), call.where};
    if (auto* value = only.value()) return {convert(std::move(*value)), call.where};
  }
  Sweep choices{.where = call.where};
  for (Element& argument : call.arguments) {
    Value* value = argument.value();
    if (!value) {
      fail_override(argument.where, call.name + "() takes one sweep or several values",
                    "write the values themselves", ErrorCode::kBadFunctionCall);
    }
    choices.choices.push_back(convert(std::move(*value)));
  }
  return {std::move(choices), call.where};
}

}  // namespace runner
