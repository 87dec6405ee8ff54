#include "runner/parent/config/value_order.h"

#include <algorithm>

#include "runner/parent/config/scalar.h"

namespace runner {
namespace {

bool is_big(const Value& value) { return value.form == ScalarForm::kBigInteger; }

/// Returns the value of a number or boolean; nullopt for other values. A long double represents
/// every 64-bit integer exactly.
std::optional<long double> number(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag;
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) return *integer;
  if (const auto* real = std::get_if<double>(&value.data)) return *real;
  if (is_big(value)) return parse_double(*value.text());
  return std::nullopt;
}

int sign(bool before, bool after) { return static_cast<int>(after) - static_cast<int>(before); }

/// Compares two integers of more than 64 bits.
int compare_digits(std::string_view a, std::string_view b) {
  const bool negative = a.starts_with('-');
  if (negative != b.starts_with('-')) return negative ? -1 : 1;
  const int by_size =
      a.size() != b.size() ? sign(a.size() < b.size(), a.size() > b.size()) : sign(a<b, a> b);
  return negative ? -by_size : by_size;
}

}  // namespace

std::optional<int> compare(const Value& a, const Value& b) {
  if (is_big(a) && is_big(b)) return compare_digits(*a.text(), *b.text());
  const auto left = number(a), right = number(b);
  if (left && right) return sign(*left<*right, *left> * right);
  if (left || right) return std::nullopt;
  if (a.text() && b.text() && a.form == ScalarForm::kPlain && b.form == ScalarForm::kPlain) {
    return sign(*a.text() < *b.text(), *a.text() > *b.text());
  }
  if (!a.list() || !b.list()) return std::nullopt;
  const auto [x, y] = std::ranges::mismatch(*a.list(), *b.list(), same_data);
  const bool a_ends = x == a.list()->end(), b_ends = y == b.list()->end();
  if (a_ends || b_ends) return sign(a_ends && !b_ends, !a_ends);
  return compare(*x, *y);
}

}  // namespace runner
