#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace stages {

/// A regular expression in the syntax of Python's `re`. Adapter folders and recipes specify modules
/// with such expressions, and recipes use them to find the patient in a file name. Uses PCRE2,
/// which supports that syntax (named groups, look-behind, inline flags). Expressions are not
/// trusted, so the work per match is limited. Not thread-safe.
class Expression {
 public:
  /// Whether the whole name or any part of it must match.
  enum class Extent { kWhole, kAnyPart };

  /// Throws std::invalid_argument if `text` is malformed, with the error and its position: "missing
  /// closing parenthesis at character 4".
  explicit Expression(std::string_view text, Extent extent = Extent::kWhole);
  ~Expression();
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;

  /// True if `name` matches, as a whole or in part, depending on the Extent. Throws
  /// runner::StageError if matching takes too long.
  bool matches(std::string_view name) const { return capture(name).has_value(); }
  /// Returns the text that the group named idx captured; empty if it captured nothing or does not
  /// exist; nullopt if `name` does not match. Throws like matches().
  std::optional<std::string> capture(std::string_view name) const;

  /// True if the expression has a group, numbered or named.
  bool has_groups() const;
  /// Returns the text captured by the group named `group` or, if there is no such group, by the
  /// first group; empty if it captured nothing; nullopt if `name` does not match. Throws like
  /// matches().
  std::optional<std::string> capture_or_first(std::string_view name, const char* group) const;

 private:
  /// Returns one more than the number of the highest group that captured text; 0 if `name` does not
  /// match.
  int match(std::string_view name) const;

  struct Compiled;
  std::string text_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace stages
