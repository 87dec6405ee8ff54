#include "runner/parent/schema/rule.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <stdexcept>
#include <variant>

namespace runner {
namespace {

struct Container {  ///< a list or a mapping; conditions cannot see its contents
  bool operator==(const Container&) const = default;
};

/// The value of part of a condition; nullopt if it is unknown.
using Operand = std::optional<std::variant<std::nullptr_t, bool, double, std::string, Container>>;
using Truth = std::optional<bool>;

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

std::optional<double> number_of(const Operand& operand) {
  const auto* number = operand ? std::get_if<double>(&*operand) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

Operand operand_of(const Value* value) {
  if (!value || value->is_null()) return nullptr;
  if (const auto* flag = std::get_if<bool>(&value->data)) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&value->data))
    return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value->data)) return *number;
  if (const auto* text = value->reveal()) return *text;
  return Container();
}

/// Returns the smallest number in a list; unknown if there is none.
Operand least_of(const Value* value) {
  std::optional<double> least;
  for (const Value& item : value && value->list() ? *value->list() : Value::List()) {
    const auto number = number_of(operand_of(&item));
    if (number && (!least || *number < *least)) least = number;
  }
  return least ? Operand(*least) : Operand();
}

double size_of(const Value* value) {
  if (!value) return 0;
  if (value->list()) return static_cast<double>(value->list()->size());
  if (value->map()) return static_cast<double>(value->map()->size());
  return value->reveal() ? static_cast<double>(value->reveal()->size()) : 0;
}

/// Parses and evaluates a condition by recursive descent.
class Condition {
 public:
  Condition(std::string_view text, const OptionLookup& look) : text_(text), look_(look) {}

  Truth value() {
    const Truth result = truth(disjunction());
    skip_blanks();
    if (at_ != text_.size()) fail("'" + std::string(text_.substr(at_)) + "' is unexpected");
    return result;
  }

 private:
  static constexpr int kDeepestParentheses = 50;

  [[noreturn]] void fail(const std::string& why) const {
    throw std::invalid_argument("'" + std::string(text_) + "': " + why);
  }

  Operand disjunction() {
    Operand left = conjunction();
    while (take_word("or")) {
      const Truth a = truth(left), b = truth(conjunction());
      left = (a == true || b == true) ? Operand(true) : a && b ? Operand(false) : Operand();
    }
    return left;
  }

  Operand conjunction() {
    Operand left = negation();
    while (take_word("and")) {
      const Truth a = truth(left), b = truth(negation());
      left = (a == false || b == false) ? Operand(false) : a && b ? Operand(true) : Operand();
    }
    return left;
  }

  Operand negation() {
    if (!take_word("not")) return comparison();
    const Truth inner = truth(negation());
    return inner ? Operand(!*inner) : Operand();
  }

  Operand comparison() {
    const Operand left = sum();
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (take(sign)) return compared(left, sign, sum());
    }
    return left;
  }

  static Operand compared(const Operand& left, std::string_view sign, const Operand& right) {
    if (!left || !right) return std::nullopt;
    if (std::holds_alternative<Container>(*left) && std::holds_alternative<Container>(*right))
      return std::nullopt;
    if (sign == "==") return *left == *right;
    if (sign == "!=") return *left != *right;
    const auto a = number_of(left), b = number_of(right);
    if (!a || !b) return std::nullopt;
    if (sign == "<=") return *a <= *b;
    if (sign == ">=") return *a >= *b;
    return sign == "<" ? *a < *b : *a > *b;
  }

  Operand sum() {
    Operand left = product();
    for (;;) {
      if (take("+")) left = computed(left, product(), [](double a, double b) { return a + b; });
      else if (take("-"))
        left = computed(left, product(), [](double a, double b) { return a - b; });
      else return left;
    }
  }

  Operand product() {
    Operand left = primary();
    for (;;) {
      if (take("*")) left = computed(left, primary(), [](double a, double b) { return a * b; });
      else if (take("/"))
        left = computed(left, primary(), [](double a, double b) { return a / b; });
      else if (take("%"))
        left = computed(left, primary(), [](double a, double b) { return std::fmod(a, b); });
      else return left;
    }
  }

  static Operand computed(const Operand& left, const Operand& right,
                          double (*operation)(double, double)) {
    const auto a = number_of(left), b = number_of(right);
    if (!a || !b) return std::nullopt;
    const double result = operation(*a, *b);
    return std::isfinite(result) ? Operand(result) : std::nullopt;
  }

  Operand primary() {
    if (take("(")) {
      if (++depth_ > kDeepestParentheses) fail("too many parentheses");
      const Operand inner = disjunction();
      if (!take(")")) fail("a ')' is missing");
      --depth_;
      return inner;
    }
    if (take("'")) {
      const std::size_t end = text_.find('\'', at_);
      if (end == text_.npos) fail("a string is not closed");
      const std::string text(text_.substr(at_, end - at_));
      at_ = end + 1;
      return text;
    }
    const std::string_view word = next_word();
    at_ += word.size();
    if (word.empty()) fail("a value is missing");
    if (word == "null") return nullptr;
    if (word == "true" || word == "false") return word == "true";
    if (word == "and" || word == "or" || word == "not")
      fail("'" + std::string(word) + "' cannot be a value");
    if (std::isdigit(static_cast<unsigned char>(word[0])))
      return std::strtod(std::string(word).c_str(), nullptr);
    if (word != "size" && word != "is_text" && word != "differ" && word != "least")
      return operand_of(look_(word));
    const std::string_view path = take("(") ? next_word() : std::string_view();
    at_ += path.size();
    if (path.empty() || !take(")")) fail(std::string(word) + " takes an option in parentheses");
    if (word == "differ") return items_differ(path);
    const Value* const option = look_(path);
    if (word == "is_text") return option && option->text();
    if (word == "least") return least_of(option);
    return size_of(option);
  }

  /// True if no two items of the list in "groups.name" have the same string under the last key,
  /// "name".
  bool items_differ(std::string_view path) const {
    const std::size_t dot = path.rfind('.');
    if (dot == path.npos)
      fail("differ takes a list and a key of its items, with a dot between them");
    const Value* const option = look_(path.substr(0, dot));
    std::set<std::string_view> seen;
    for (const Value& item : option && option->list() ? *option->list() : Value::List()) {
      const Value* const named = item.map() ? item.find(path.substr(dot + 1)) : nullptr;
      if (named && named->reveal() && !seen.insert(*named->reveal()).second) return false;
    }
    return true;
  }

  /// Returns the truth value of an operand; unknown if it is not a boolean.
  Truth truth(const Operand& operand) const {
    if (!operand) return std::nullopt;
    if (const auto* flag = std::get_if<bool>(&*operand)) return *flag;
    return std::nullopt;
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string_view next_word() {
    skip_blanks();
    std::size_t end = at_;
    while (end < text_.size() && is_of_name(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool take_word(std::string_view word) {
    if (next_word() != word) return false;
    at_ += word.size();
    return true;
  }
  bool take(std::string_view sign) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  const std::string_view text_;
  const OptionLookup& look_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

bool holds(std::string_view condition, const OptionLookup& look) {
  return Condition(condition, look).value().value_or(true);
}

std::string filled_in(std::string_view message, const OptionLookup& look) {
  std::string text;
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t open = message.find('{', at);
    const std::size_t close = message.find('}', open == message.npos ? at : open);
    if (open == message.npos || close == message.npos) return text += message.substr(at);
    text += message.substr(at, open - at);
    const Value* value = look(message.substr(open + 1, close - open - 1));
    text += value ? describe(*value) : "null";
    at = close + 1;
  }
  return text;
}

}  // namespace runner
