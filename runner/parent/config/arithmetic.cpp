#include "runner/parent/config/arithmetic.h"

#include <cmath>
#include <string>
#include <variant>

#include "runner/parent/config/scalar.h"

namespace runner {
namespace {

using ArithmeticNumber = std::variant<std::int64_t, double>;

std::nullopt_t cannot_compute(ResolverContext& context, const std::string& message, const std::string& help = "") {
  context.fail(ErrorCode::kInterpolationSyntax, message, help);
  return std::nullopt;
}

std::optional<ArithmeticNumber> number_in_argument(ResolverContext& context, const Value& argument) {
  Scalar data = argument.data;
  if (argument.text() && argument.form != ScalarForm::kBigInteger) {
    const auto read = plain_scalar(*argument.text());
    if (read && read->form != ScalarForm::kBigInteger) data = read->data;
  }
  if (const auto* integer = std::get_if<std::int64_t>(&data)) return *integer;
  if (const auto* real = std::get_if<double>(&data); real && std::isfinite(*real)) return *real;
  return cannot_compute(context, "it takes numbers, not " +
                                     (argument.secret_as.empty() ? describe(argument) : std::string("its argument")));
}

double as_double(const ArithmeticNumber& one) {
  return std::visit([](auto value) { return static_cast<double>(value); }, one);
}

std::optional<Value> number_value(ResolverContext& context, const ArithmeticNumber& number) {
  if (const auto* integer = std::get_if<std::int64_t>(&number)) return Value{*integer, {}};
  if (std::isfinite(as_double(number))) return Value{as_double(number), {}};
  return cannot_compute(context, "the result is too large");
}

/// `whole` says whether its integers overflow, as the compiler's builtins do.
std::optional<Value> fold_numbers(ResolverContext& context, const std::vector<Value>& arguments,
                                  bool (*whole)(std::int64_t, std::int64_t, std::int64_t*),
                                  double (*broken)(double, double)) {
  std::optional<ArithmeticNumber> total;
  for (const Value& argument : arguments) {
    const auto next = number_in_argument(context, argument);
    if (!next) return std::nullopt;
    if (!total) {
      total = next;
      continue;
    }
    const auto *left = std::get_if<std::int64_t>(&*total), *right = std::get_if<std::int64_t>(&*next);
    std::int64_t sum = 0;
    if (!left || !right) total = broken(as_double(*total), as_double(*next));
    else if (whole(*left, *right, &sum)) return cannot_compute(context, "the result needs more than 64 bits");
    else total = sum;
  }
  return number_value(context, *total);
}

}  // namespace

std::optional<Value> add_numbers(ResolverContext& context, std::vector<Value>& arguments) {
  return fold_numbers(
      context, arguments,
      [](std::int64_t a, std::int64_t b, std::int64_t* sum) { return __builtin_add_overflow(a, b, sum); },
      [](double a, double b) { return a + b; });
}

std::optional<Value> subtract_numbers(ResolverContext& context, std::vector<Value>& arguments) {
  return fold_numbers(
      context, arguments,
      [](std::int64_t a, std::int64_t b, std::int64_t* sum) { return __builtin_sub_overflow(a, b, sum); },
      [](double a, double b) { return a - b; });
}

std::optional<Value> multiply_numbers(ResolverContext& context, std::vector<Value>& arguments) {
  return fold_numbers(
      context, arguments,
      [](std::int64_t a, std::int64_t b, std::int64_t* sum) { return __builtin_mul_overflow(a, b, sum); },
      [](double a, double b) { return a * b; });
}

std::optional<Value> divide_numbers(ResolverContext& context, std::vector<Value>& arguments) {
  const auto left = number_in_argument(context, arguments[0]),
             right = left ? number_in_argument(context, arguments[1]) : std::nullopt;
  if (!right) return std::nullopt;
  if (as_double(*right) == 0) return cannot_compute(context, "it divides by zero");
  const auto *dividend = std::get_if<std::int64_t>(&*left), *divisor = std::get_if<std::int64_t>(&*right);
  const bool is_whole = dividend && divisor && *divisor != -1 && *dividend % *divisor == 0;
  if (is_whole) return Value{*dividend / *divisor, {}};
  if (dividend && divisor && *divisor == -1 && *dividend != INT64_MIN) return Value{-*dividend, {}};
  return number_value(context, as_double(*left) / as_double(*right));
}

std::optional<Value> integer_part(ResolverContext& context, std::vector<Value>& arguments) {
  const auto given = number_in_argument(context, arguments[0]);
  if (!given) return std::nullopt;
  if (std::holds_alternative<std::int64_t>(*given)) return Value{std::get<std::int64_t>(*given), {}};
  const double cut = std::trunc(as_double(*given));
  if (std::abs(cut) >= 0x1p63) return cannot_compute(context, "the result needs more than 64 bits");
  return Value{static_cast<std::int64_t>(cut), {}};
}

}  // namespace runner
