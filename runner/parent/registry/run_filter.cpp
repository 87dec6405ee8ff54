#include "runner/parent/registry/run_filter.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace runner {
namespace {

constexpr std::string_view kBlanks = " \t\n\r";
constexpr std::string_view kSigns = "=!<>&|()'\"";
constexpr int kDeepest = 64;  // maximum nesting of parentheses and !

std::optional<double> whole_number(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

template <typename T>
bool fits(int sign, const T& a, const T& b) {
  switch (sign) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return a < b;
    case 3:
      return a <= b;
    case 4:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace

/// Parses a filter from left to right and stops at the first error.
class FilterReader {
 public:
  FilterReader(const SourceText& source, RunFilter& filter)
      : source_(source), text_(source.contents), filter_(filter) {}

  std::optional<Diagnostic> read() {
    skip_blanks();
    if (at_ < text_.size()) filter_.all_ = any(0);
    if (!mistake_ && at_ < text_.size()) fail("expected '&' or '|' between two comparisons");
    return mistake_;
  }

 private:
  using Term = RunFilter::Term;
  using Form = RunFilter::Form;
  using Sign = RunFilter::Sign;

  Term any(int depth) {
    return joined(depth, Form::kAny, '|', [&] { return all(depth); });
  }
  Term all(int depth) {
    return joined(depth, Form::kAll, '&', [&] { return one(depth); });
  }

  template <typename Part>
  Term joined(int, Form form, char sign, const Part& part) {
    Term term{.form = form};
    do term.parts.push_back(part());
    while (!mistake_ && take(sign));
    return term;
  }

  Term one(int depth) {
    if (depth >= kDeepest) return fail("parentheses and ! are nested too deeply");
    if (peek() == '!' && peek(1) != '=') {
      ++at_;
      skip_blanks();
      Term term{.form = Form::kNot};
      term.parts.push_back(one(depth + 1));
      return term;
    }
    if (peek() != '(') return comparison();
    ++at_;
    skip_blanks();
    Term term = any(depth + 1);
    if (!mistake_ && peek() != ')') return fail("expected ')'");
    if (!mistake_) ++at_;
    skip_blanks();
    return term;
  }

  Term comparison() {
    Term term{.form = Form::kComparison};
    const std::string key = word();
    if (key.empty()) return fail("expected a key, such as accuracy or model.kind");
    const auto known = std::ranges::find(filter_.keys_, key);
    term.key = static_cast<std::size_t>(known - filter_.keys_.begin());
    if (known == filter_.keys_.end()) filter_.keys_.push_back(key);
    skip_blanks();
    const auto sign = comparison_sign();
    if (!sign) return fail("expected =, !=, <, <=, > or >= after '" + key + "'");
    term.sign = *sign;
    skip_blanks();
    const bool is_quoted = peek() == '\'' || peek() == '"';
    term.text = is_quoted ? quoted() : word();
    if (mistake_) return {};
    if (term.text.empty() && !is_quoted)
      return fail("expected a value to compare '" + key + "' with");
    if (!is_quoted) term.number = whole_number(term.text);
    skip_blanks();
    return term;
  }

  std::optional<Sign> comparison_sign() {
    const char first = peek();
    const bool has_equals = peek(1) == '=';
    if (first == '!' && !has_equals) return std::nullopt;
    if (std::string_view("=!<>").find(first) == std::string_view::npos || first == '\0')
      return std::nullopt;
    at_ += has_equals ? 2 : 1;
    if (first == '=') return Sign::kEqual;
    if (first == '!') return Sign::kUnequal;
    if (first == '<') return has_equals ? Sign::kAtMost : Sign::kLess;
    return has_equals ? Sign::kAtLeast : Sign::kGreater;
  }

  std::string word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && kSigns.find(text_[at_]) == kSigns.npos &&
           kBlanks.find(text_[at_]) == kBlanks.npos)
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string quoted() {
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == text_.npos) {
      fail("this quote is not closed");
      return "";
    }
    const std::string inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  bool take(char sign) {
    if (peek() != sign) return false;
    at_ += peek(1) == sign ? 2 : 1;
    skip_blanks();
    return true;
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  Term fail(const std::string& message) {
    if (!mistake_) {
      mistake_ = Diagnostic{ErrorCode::kUsage,
                            {&source_, 1, static_cast<int>(at_) + 1},
                            "",
                            message,
                            "write a filter such as 'accuracy>0.7 & model.kind=lora'"};
    }
    return {};
  }

  const SourceText& source_;
  const std::string& text_;
  RunFilter& filter_;
  std::size_t at_ = 0;
  std::optional<Diagnostic> mistake_;
};

Result<RunFilter> RunFilter::parse(const std::string& text, Sources& sources) {
  RunFilter filter;
  if (auto mistake = FilterReader(sources.add("filter", text), filter).read())
    return *std::move(mistake);
  return filter;
}

bool RunFilter::takes(std::span<const std::vector<RunValue>> values) const {
  return holds(all_, values);
}

bool RunFilter::holds(const Term& term, std::span<const std::vector<RunValue>> values) const {
  const auto part_holds = [&](const Term& part) { return holds(part, values); };
  switch (term.form) {
    case Form::kAll:
      return std::ranges::all_of(term.parts, part_holds);
    case Form::kAny:
      return std::ranges::any_of(term.parts, part_holds);
    case Form::kNot:
      return !holds(term.parts.front(), values);
    case Form::kComparison:
      break;
  }
  const std::vector<RunValue>& present = values[term.key];
  const auto fits = [&](const RunValue& value) { return compares(term, value); };
  if (term.sign == Sign::kUnequal) return !present.empty() && std::ranges::all_of(present, fits);
  return std::ranges::any_of(present, fits);
}

bool RunFilter::compares(const Term& term, const RunValue& value) const {
  const int sign = static_cast<int>(term.sign);
  const auto* number = std::get_if<double>(&value);
  if (number && term.number) return fits(sign, *number, *term.number);
  if (number && std::isnan(*number)) return term.sign == Sign::kUnequal;
  const std::string text = run_value_text(value);
  const std::string& key = keys_[term.key];
  const bool is_kind = key == "kind" || key.ends_with(".kind");
  const std::size_t dot = text.find('.');
  if (is_kind && dot != text.npos && term.text.find('.') == term.text.npos)
    return fits(sign, text.substr(dot + 1), term.text);
  return fits(sign, text, term.text);
}

bool looks_like_filter(const std::string& text) {
  return text.find_first_of("=<>&|!()") != text.npos;
}

}  // namespace runner
