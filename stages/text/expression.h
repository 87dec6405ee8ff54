#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace stages {

/// A regular expression in the dialect of Python's `re`. Adapter folders and recipes use it to name
/// modules, and recipes to find the patient in a file's name. PCRE2 matches it: of the libraries in
/// use only PCRE2 knows that dialect (named groups, look-behind, inline flags). Expressions are
/// untrusted, so the work on one is bounded. For use by one thread.
class Expression {
 public:
  /// How much of a name must match.
  enum class Extent { kWhole, kAnyPart };

  /// Throws std::invalid_argument with the fault in `text` and its position: "missing closing
  /// parenthesis at character 4".
  explicit Expression(std::string_view text, Extent extent = Extent::kWhole);
  ~Expression();
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;

  /// Does all of `name` match? Throws runner::StageError if matching takes too long.
  bool matches(std::string_view name) const { return capture(name).has_value(); }
  /// What the group `idx` captured in such a match, empty if it captured nothing or does not exist;
  /// nullopt: no match.
  std::optional<std::string> capture(std::string_view name) const;

  /// Does it have a group, numbered or named?
  bool has_groups() const;
  /// What the group named `group` captured, or the first group if none has that name; empty if it
  /// captured nothing; nullopt: no match. Throws as matches() does.
  std::optional<std::string> capture_or_first(std::string_view name, const char* group) const;

 private:
  /// One more than the number of groups that a match of `name` has set; 0: no match.
  int match(std::string_view name) const;

  struct Compiled;
  std::string text_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace stages
