#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/parent/config/override.h"

namespace runner {

/// A short or historical name for a key, from a recipe's `aliases:`.
struct Alias {
  std::string name;  ///< "lr"; may contain dots
  Location where;
  /// The keys that the alias stands for; with `cases`, the key for all other values.
  std::vector<std::string> targets;
  /// Overrides for one value of the alias: mixed_precision: {"true": [memory.precision=fp16]}.
  /// `any: key` specifies the key that receives all other values.
  struct Case {
    std::string value;
    std::vector<std::string> overrides;
  };
  std::vector<Case> cases = {};
  /// For a list value: the key that receives the list, followed by further overrides.
  std::vector<std::string> of_list = {};
  /// For an option of the original program that has no equivalent here: what to do instead.
  std::string instead = {};
};

/// Reads the mapping `aliases` and adds each alias with a new name to `result`. Errors are added to
/// `errors`.
void read_aliases(const Value& aliases, std::vector<Alias>& result, Diagnostics& errors);

/// Adds the aliases that every recipe has unless it defines them itself: epochs, lr and batch_size.
void add_common_aliases(std::vector<Alias>& result);

/// Returns the overrides that `override` stands for. The longest alias that is a dotted prefix of
/// its key is replaced; if there is none, the result is `override` itself. An alias with `instead`
/// is an error. A sweep over an alias that stands for several overrides becomes a sweep over rows
/// of overrides. Everything keeps the Location of the typed text. Since all of a recipe's overrides
/// pass through here, this function also marks secrets (secret.h).
Result<std::vector<Override>> apply_alias(const Override& override, std::span<const Alias> aliases);

}  // namespace runner
