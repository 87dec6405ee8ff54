#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace stages {

/// A regular expression as Python's `re` reads it, in which adapter folders and recipes name
/// modules, and recipes say what of a file's name is the patient. PCRE2 matches it: of the
/// libraries here it alone knows that dialect (named groups, look-behind, inline flags).
/// Expressions come from elsewhere, so the work on one is bounded. It is for one thread.
class Expression {
 public:
  /// What of a name it is to match.
  enum class Extent { kWhole, kAnyPart };

  /// Throws std::invalid_argument saying where and why `text` is none: "missing closing parenthesis
  /// at character 4".
  explicit Expression(std::string_view text, Extent extent = Extent::kWhole);
  ~Expression();
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;

  /// Is all of `name` a match? Throws runner::StageError where that takes too long to say.
  bool matches(std::string_view name) const { return capture(name).has_value(); }
  /// What the group `idx` took in such a match, empty where it took nothing or is none; nullopt: no
  /// match.
  std::optional<std::string> capture(std::string_view name) const;

  /// Is there a group, numbered or named?
  bool has_groups() const;
  /// What the group called `group` took in a match, or the first where none is called so; empty
  /// where it took nothing; nullopt: no match. Throws as matches() does.
  std::optional<std::string> capture_or_first(std::string_view name, const char* group) const;

 private:
  /// How many groups a match of `name` has set, and one; 0: no match.
  int match(std::string_view name) const;

  struct Compiled;
  std::string text_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace stages
