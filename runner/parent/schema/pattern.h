#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// A regular expression of a schema, ECMAScript's without back-references, over characters of UTF-8 text.
/// Matching never backtracks: its time is bounded by the square of kMaxText whatever the pattern.
class Pattern {
 public:
  /// Longer texts match nothing; a schema that bounds a text by a pattern bounds its length as well.
  static constexpr std::size_t kMaxText = 1000;  // characters

  /// nullopt when `expression` is none.
  static std::optional<Pattern> compile(std::string_view expression);

  /// Is there a match anywhere in `text`?
  bool matches(std::string_view text) const;
  const std::string& expression() const { return expression_; }

 private:
  struct Compiled;
  Pattern(std::string expression, std::shared_ptr<const Compiled> compiled);

  std::string expression_;
  std::shared_ptr<const Compiled> compiled_;
};

/// Characters of UTF-8 text; a byte that belongs to no character counts as one.
std::size_t character_count(std::string_view text);

}  // namespace runner
