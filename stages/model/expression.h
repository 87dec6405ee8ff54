#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace stages {

/// A regular expression as Python's `re` reads it, in which adapter folders and their recipes name modules. PCRE2
/// matches it: of the libraries here it alone knows that dialect (named groups, look-behind, inline flags). Expressions
/// come from elsewhere, so the work on one is bounded.
class Expression {
 public:
  /// Throws std::invalid_argument saying where and why `text` is none: "missing closing parenthesis at character 4".
  explicit Expression(std::string_view text);
  ~Expression();
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;

  /// Is all of `name` a match? Throws runner::StageError where that takes too long to say.
  bool matches(std::string_view name) const { return capture(name).has_value(); }
  /// What the group `idx` took in such a match, empty where it took nothing or is none; nullopt: no match.
  std::optional<std::string> capture(std::string_view name) const;

 private:
  struct Compiled;
  std::string text_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace stages
