#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runner/shared/value/value.h"

namespace runner {

/// The data of a Value; here never a list or a mapping.
using Scalar = decltype(Value::data);

/// The value of an unquoted scalar.
struct PlainScalar {
  Scalar data;
  ScalarForm form = ScalarForm::kPlain;  ///< kPlain or kBigInteger
};

/// Parses an unquoted scalar of a YAML file by the rules of YAML 1.1 as PyYAML applies them, except
/// that timestamps are strings and 1e3 is a number. nullopt for an integer of more than 4300
/// characters.
std::optional<PlainScalar> plain_scalar(std::string_view text);

/// Parses `[+-]digits[.digits][e[+-]digits]` without separators. If the number is out of the range
/// of double, the result is infinite or zero.
double parse_double(std::string_view text);

/// Returns the shortest text that parses to `number`, formatted as in Python: "1.0", "1e-05",
/// "1e+20", "inf", "nan".
std::string float_text(double number);

/// Returns `scalar` as it appears inside a longer string: null, true, 3, 0.5 or the string itself.
/// For a secret, returns what is shown instead; for containers, an empty string.
std::string scalar_text(const Value& scalar);

/// Like scalar_text(), but returns a secret itself, as Value::reveal() does.
std::string revealed_text(const Value& scalar);

}  // namespace runner
