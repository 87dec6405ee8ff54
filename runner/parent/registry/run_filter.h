#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/registry/run_entry.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A filter for runs, as typed on a command line:
///
///   accuracy>0.7 & model.kind=lora
///   (status=failed | seconds>=3600) & !tag=old
///   name='two words'
///
/// A comparison is a key, then = (or ==), !=, <, <=, > or >=, and a value, in quotes if it contains
/// spaces or operators. & (or &&) binds tighter than | (or ||); ! and parentheses work as usual.
/// Two numbers are compared as numbers, anything else as strings. For a key that ends in "kind",
/// the family may be left out of the value: lora matches model.lora. A comparison with a key that a
/// run does not have is false, as is every comparison with NaN except !=.
class RunFilter {
 public:
  /// Parses a filter; an empty string matches every run. Fails with kUsage at the position of the
  /// syntax error.
  static Result<RunFilter> parse(const std::string& text, Sources& sources);

  /// Returns the keys that the filter reads, without duplicates.
  const std::vector<std::string>& keys() const { return keys_; }
  /// True if the filter matches a run. `values` contains the run's values for each of keys(): none,
  /// one or several (such as tags), any of which may match.
  bool takes(std::span<const std::vector<RunValue>> values) const;

 private:
  friend class FilterReader;
  enum class Sign { kEqual, kUnequal, kLess, kAtMost, kGreater, kAtLeast };
  enum class Form { kAll, kAny, kNot, kComparison };
  struct Term {
    Form form = Form::kAll;
    std::vector<Term> parts = {};  ///< the operands of kAll, kAny and kNot
    std::size_t key = 0;           ///< for a comparison: the index of its key in keys_
    Sign sign = Sign::kEqual;
    std::string text = {};
    std::optional<double> number = {};  ///< the number in `text`, if it is one and not quoted
  };
  bool holds(const Term& term, std::span<const std::vector<RunValue>> values) const;
  bool compares(const Term& term, const RunValue& value) const;

  Term all_;
  std::vector<std::string> keys_;
};

/// True if `text` can only be a filter: it contains an operator.
bool looks_like_filter(const std::string& text);

}  // namespace runner
