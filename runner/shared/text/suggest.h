#pragma once

#include <span>
#include <string>
#include <string_view>

namespace runner {

/// True if `word` consists of the initials of the words in `name`: "lr" for "learning_rate".
bool is_short_for(std::string_view word, std::string_view name);

/// Returns the candidate closest to `word`, or "" if none is close. Close means a
/// Damerau–Levenshtein distance of at most 2 and a similarity of at least 0.6, or a candidate that
/// `word` abbreviates. A candidate that differs only in case is closest; the first one wins a tie.
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

/// Returns "did you mean 'x'?" for the closest candidate; empty if none is close.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// Returns "did you mean 'x'?" for candidates written "a.b.c" or "a/b/c"; `word` may be just the
/// last part of one, possibly misspelled. Suggests up to five candidates with that last part.
std::string did_you_mean_path(std::string_view word, std::span<const std::string> candidates);

}  // namespace runner
