#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/parent/config/override.h"

namespace runner {

/// A short or historical name of a key, from a recipe's `aliases:`.
struct Alias {
  std::string name;  ///< "lr"; may contain dots
  Location where;
  std::vector<std::string> targets;  ///< the keys it stands for: one or several; if it maps values,
                                     ///< the key for all others
  /// Overrides for one value of the alias: mixed_precision: {"true": [memory.precision=fp16]}.
  /// `any: key` names the key that all other values are for.
  struct Case {
    std::string value;
    std::vector<std::string> overrides;
  };
  std::vector<Case> cases = {};
  /// The meaning of a list value: the key that takes the list, then further overrides.
  std::vector<std::string> of_list = {};
  std::string instead =
      {};  ///< for an option of the original that has no meaning here: what to do instead
};

/// Reads the mapping `aliases` and adds those to `result` whose names it does not hold yet; errors
/// are added to `errors`.
void read_aliases(const Value& aliases, std::vector<Alias>& result, Diagnostics& errors);

/// The aliases of every recipe, unless it gives the name another meaning: epochs, lr and
/// batch_size.
void add_common_aliases(std::vector<Alias>& result);

/// The overrides that `override` stands for: itself, or with the longest alias that is a dotted
/// prefix of its key replaced. An error for an alias that says what to do instead. A sweep over an
/// alias that stands for several overrides becomes a sweep over rows of them. Everything keeps the
/// Location of the typed text. Every override of a recipe passes through here, so this marks its
/// secrets (secret.h).
Result<std::vector<Override>> apply_alias(const Override& override, std::span<const Alias> aliases);

}  // namespace runner
