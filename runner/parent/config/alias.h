#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/parent/config/override.h"

namespace runner {

/// A short or historical name of a key, from a recipe's `aliases:`.
struct Alias {
  std::string name;  ///< "lr"; may hold dots
  Location where;
  std::vector<std::string>
      targets;  ///< the keys it stands for: one or several; where it maps values, with the others
  /// Overrides that stand for one value of it: mixed_precision: {"true": [memory.precision=fp16]};
  /// `any: key` is the key that all other values are of.
  struct Case {
    std::string value;
    std::vector<std::string> overrides;
  };
  std::vector<Case> cases = {};
  /// What a list of values means: the key that takes the list, then further overrides.
  std::vector<std::string> of_list = {};
  std::string instead =
      {};  ///< of an option of the original that means nothing here: what to do instead
};

/// Reads the mapping `aliases`, adding to `result` those whose names it does not hold yet; errors
/// are added to `errors`.
void read_aliases(const Value& aliases, std::vector<Alias>& result, Diagnostics& errors);

/// Those that every recipe has unless it gives the name another meaning: epochs, lr and batch_size.
void add_common_aliases(std::vector<Alias>& result);

/// What `override` stands for: itself, or with the alias that is the longest dotted prefix of its
/// key replaced; an error for one that says what to do instead. A sweep over an alias that stands
/// for several overrides becomes one over rows of them. Everything keeps the Location of what was
/// typed. Every override passes here on its way into a recipe, so its secrets are marked here
/// (secret.h).
Result<std::vector<Override>> apply_alias(const Override& override, std::span<const Alias> aliases);

}  // namespace runner
