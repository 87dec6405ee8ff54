#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/config/config_files.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/override_value.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// How the trials of a sweep are chosen from the values of its keys.
struct TrialChoice {
  std::uint64_t seed = 0;                ///< seed for shuffling and drawing
  std::optional<std::uint64_t> samples;  ///< number of samples to draw, at least 1; nullopt: all
};

/// The trials of a sweep: every combination of the values of its dimensions, the last dimension
/// varying fastest, numbered from 0. A dimension is a key with its values, in order of first
/// appearance; a key with one value is a dimension too.
///
/// If a sweep draws samples, all keys with several values form a single dimension, at the position
/// of the first of them: each trial uses one value of each key, and no combination occurs twice.
/// Only `seed` remains a separate dimension, so each sample is run with every seed. The first
/// samples do not depend on how many are drawn.
class TrialList {
 public:
  static constexpr std::uint64_t kMaxTrials = 10'000;

  /// glob() chooses from a group's options in `configs`; shuffling depends only on `seed`. If a key
  /// appears twice, the last value counts, at the position of the first. Fails for: a repeated key
  /// with a sweep among its values; a sweep without values; interval() if nothing is drawn; more
  /// samples than combinations; a sweep over Hydra's own settings; more than kMaxTrials trials.
  static Result<TrialList> make(std::span<const Override> overrides, const ConfigFiles& configs,
                                const TrialChoice& choice);

  std::uint64_t size() const;
  /// Returns the overrides of trial `number`, which must be below size(). None of them is a sweep.
  std::vector<Override> operator[](std::uint64_t number) const;

 private:
  struct Dimension {
    // The overrides of each value, or of each sample in a drawn dimension.
    std::vector<std::vector<Override>> values;
    bool is_sweep;
    Location where;
    std::optional<Override> interval = {};  // the interval to draw from
    bool is_drawn = false;
  };

  /// Draws the values of each sample for the drawn dimensions.
  Diagnostics draw(std::uint64_t seed, std::uint64_t samples);

  std::vector<Dimension> dimensions_;
};

/// True if `pattern` matches all of `name`, as in Python's fnmatchcase(). Both are UTF-8; invalid
/// bytes count as characters.
///
///   *        any characters
///   ?        one character
///   [a-z_]   one of these
/// [!a-z_] one character other than these
///
/// Everything else matches itself, including a '[' without a closing ']'. The worst-case time is
/// proportional to the product of the two lengths.
bool matches_wildcard(std::string_view name, std::string_view pattern);

/// Evaluates zip(a=[1,2],b.c=[3,4]), a sweep in which each trial sets all keys: the first trial
/// uses the first values, and so on. The lists must have the same length. Throws OverrideError.
Element zip(FunctionCall call);

}  // namespace runner
