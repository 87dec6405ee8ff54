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

/// Which runs are meant, as a command line says it:
///
///   accuracy>0.7 & model.kind=lora      (status=failed | seconds>=3600) & !tag=old      name='two
///   words'
///
/// A key, then = (or ==), !=, <, <=, > or >=, and a value, in quotes where it holds blanks or
/// signs. & (or &&) binds closer than | (or ||); ! and parentheses are as everywhere. Numbers are
/// compared as numbers; where one side is none both are compared as texts. Of a key that ends in
/// "kind" the value may leave out the family: lora is model.lora. A comparison with what a run does
/// not have is false, and so is every one with NaN but !=.
class RunFilter {
 public:
  /// kUsage at the place in the filter where it cannot be understood. An empty text means every
  /// run.
  static Result<RunFilter> parse(const std::string& text, Sources& sources);

  /// The keys that it asks for, each once.
  const std::vector<std::string>& keys() const { return keys_; }
  /// `values`: of each of keys() what the run has: none, one value, or several, of which any may be
  /// meant (of a tag).
  bool takes(std::span<const std::vector<RunValue>> values) const;

 private:
  friend class FilterReader;
  enum class Sign { kEqual, kUnequal, kLess, kAtMost, kGreater, kAtLeast };
  enum class Form { kAll, kAny, kNot, kComparison };
  struct Term {
    Form form = Form::kAll;
    std::vector<Term> parts = {};  ///< of kAll, kAny and kNot
    std::size_t key = 0;           ///< of a comparison, in keys_
    Sign sign = Sign::kEqual;
    std::string text = {};
    std::optional<double> number = {};  ///< that the text is
  };
  bool holds(const Term& term, std::span<const std::vector<RunValue>> values) const;
  bool compares(const Term& term, const RunValue& value) const;

  Term all_;
  std::vector<std::string> keys_;
};

/// True where `text` can only be a filter: it holds one of its signs.
bool looks_like_filter(const std::string& text);

}  // namespace runner
