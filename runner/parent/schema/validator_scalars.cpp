#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

#include "runner/parent/schema/published_schema.h"
#include "runner/parent/schema/validator.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

bool is_integral(double number) { return std::isfinite(number) && number == std::floor(number); }

bool fits_int64(double number) { return number >= -0x1p63 && number < 0x1p63; }

double as_double(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value.data))
    return static_cast<double>(*integer);
  return std::get<double>(value.data);
}

/// Compares two numbers by value, integers exactly; unordered if one is NaN.
std::partial_ordering order(const Value& a, const Value& b) {
  const auto* left = std::get_if<std::int64_t>(&a.data);
  const auto* right = std::get_if<std::int64_t>(&b.data);
  return left && right ? *left <=> *right : as_double(a) <=> as_double(b);
}

bool is_multiple(const Value& value, const Value& of) {
  const auto* integer = std::get_if<std::int64_t>(&value.data);
  const auto* divisor = std::get_if<std::int64_t>(&of.data);
  if (integer && divisor) return *integer % *divisor == 0;
  const double number = as_double(value);
  const double rest = std::remainder(number, as_double(of));
  // 0.0075 is a multiple of 0.0001 although neither is a binary fraction: each is off by at most
  // half a unit in the last place.
  return std::abs(rest) <= 2 * std::numeric_limits<double>::epsilon() * std::abs(number);
}

/// Returns the suggested replacement if only the type of `value` is wrong, such as 3 for "3"; else
/// empty.
std::string retyped(const Value& value, unsigned types) {
  if (!value.secret_as.empty()) return "";
  if (value.text()) {
    const std::string& text = *value.text();
    const bool digits =
        !text.empty() && text.size() < 20 &&
        std::ranges::all_of(text, [](unsigned char c) { return c >= '0' && c <= '9'; });
    if (digits && (types & (kIntegerType | kNumberType))) {
      // Some YAML parsers read a number with a leading zero as text, others as octal.
      const std::size_t first = std::min(text.find_first_not_of('0'), text.size() - 1);
      return (first > 0 ? "write it without leading zeros: " : "write it without quotes: ") +
             text.substr(first);
    }
    if ((text == "true" || text == "false") && (types & kBooleanType))
      return "write it without quotes: " + text;
    return "";
  }
  if ((types & kStringType) && !value.list() && !value.map())
    return "write it in quotes: \"" + describe(value) + "\"";
  return "";
}

}  // namespace

unsigned types_of(const Value& value) {
  constexpr unsigned kByIndex[] = {kNullType,   kBooleanType, kIntegerType | kNumberType,
                                   kNumberType, kStringType,  kArrayType,
                                   kObjectType};
  const auto* number = std::get_if<double>(&value.data);
  return kByIndex[value.data.index()] | (number && is_integral(*number) ? kIntegerType : 0u);
}

std::vector<std::string> allowed_texts(const SchemaNode& schema) {
  std::vector<std::string> texts;
  if (!schema.allowed) return texts;
  for (const Value& value : *schema.allowed) {
    if (value.text()) texts.push_back(*value.text());
  }
  return texts;
}

bool ValidatorPass::check_allowed(const Value& value, const SchemaNode& schema,
                                  const ValidatorPlace& place) {
  if (!schema.allowed ||
      std::ranges::any_of(*schema.allowed, [&](const Value& one) { return same_data(one, value); }))
    return true;
  const auto texts = allowed_texts(schema);
  const bool shown = value.text() && value.secret_as.empty();
  const std::string help = shown ? did_you_mean(*value.text(), texts) : "";
  if (schema.allowed->size() == 1) {
    fail(ErrorCode::kNotAllowedValue, value.where, place.pointer(),
         "expected " + bare(schema.allowed->front()) + ", got " + found_phrase(value), help);
    return false;
  }
  if (schema.allowed->empty()) {
    fail(ErrorCode::kForbidden, value.where, place.pointer(),
         describe(value) + " is not allowed here");
    return false;
  }
  std::vector<std::string> words;
  for (const Value& one : *schema.allowed) words.push_back(bare(one));
  fail(
      ErrorCode::kNotAllowedValue, value.where, place.pointer(),
      (shown ? in_quotes(*value.text()) : describe(value)) + " is not one of: " + joined(words, 20),
      help);
  return false;
}

bool ValidatorPass::check_type(const Value& value, const SchemaNode& schema,
                               const ValidatorPlace& place) {
  if (schema.types == 0) return true;
  const auto wrong = [&](ErrorCode code, const std::string& wanted, const std::string& help) {
    fail(code, value.where, place.pointer(), "expected " + wanted + ", got " + found_phrase(value),
         help);
    return false;
  };
  if (!(schema.types & types_of(value))) {
    const bool names_kind =
        value.text() && std::ranges::count(schema.kinds, *value.text(), &KindSchema::name);
    return wrong(ErrorCode::kWrongType, type_phrase(schema.types),
                 names_kind ? "write {kind: " + *value.text() + "}" : retyped(value, schema.types));
  }
  const auto* number = std::get_if<double>(&value.data);
  if (number && !std::isfinite(*number))
    return wrong(ErrorCode::kOutOfRange, "a finite number", "");
  if (number && !(schema.types & kNumberType) && !fits_int64(*number)) {
    return wrong(ErrorCode::kOutOfRange, "an integer of at most 64 bits", "");
  }
  return true;
}

void ValidatorPass::check_number(const Value& value, const SchemaNode& schema,
                                 const ValidatorPlace& place, std::string_view unit) {
  const bool inside = (!schema.minimum || order(value, *schema.minimum) >= 0) &&
                      (!schema.maximum || order(value, *schema.maximum) <= 0) &&
                      (!schema.exclusive_minimum || order(value, *schema.exclusive_minimum) > 0) &&
                      (!schema.exclusive_maximum || order(value, *schema.exclusive_maximum) < 0);
  if (!inside) {
    const std::string noun =
        schema.types & kIntegerType && !(schema.types & kNumberType) ? "an integer " : "a number ";
    fail(ErrorCode::kOutOfRange, value.where, place.pointer(),
         "expected " + noun + range_phrase(schema, unit) + ", got " + describe(value));
  } else if (schema.multiple_of && !is_multiple(value, *schema.multiple_of)) {
    fail(ErrorCode::kOutOfRange, value.where, place.pointer(),
         "expected a multiple of " + describe(*schema.multiple_of) + ", got " + describe(value));
  }
}

void ValidatorPass::check_text(const Value& value, const SchemaNode& schema,
                               const ValidatorPlace& place) {
  const std::string& text = *value.reveal();
  const auto wrong = [&](std::string_view bound, std::size_t limit, std::size_t length) {
    fail(ErrorCode::kBadLength, value.where, place.pointer(),
         "expected at " + std::string(bound) + " " + counted(limit, "character") + ", got " +
             (length == 0 ? "an empty string" : std::to_string(length)));
  };
  if (schema.min_length || schema.max_length || schema.pattern) {
    const std::size_t length = character_count(text);
    if (schema.min_length && length < *schema.min_length)
      return wrong("least", *schema.min_length, length);
    if (schema.max_length && length > *schema.max_length)
      return wrong("most", *schema.max_length, length);
    if (schema.pattern && length > Pattern::kMaxText)
      return wrong("most", Pattern::kMaxText, length);
  }
  if (!schema.pattern || schema.pattern->matches(text)) return;
  fail(ErrorCode::kBadPattern, value.where, place.pointer(),
       describe(value) + " does not have the required form",
       schema.description.empty() ? "it must match " + schema.pattern->expression()
                                  : schema.description);
}

}  // namespace runner
