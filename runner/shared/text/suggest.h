#pragma once

#include <span>
#include <string>
#include <string_view>

namespace runner {

/// True if `word` consists of the first letters of the words of `name`: "lr" for "learning_rate".
bool is_short_for(std::string_view word, std::string_view name);

/// The candidate closest to `word` (Damerau–Levenshtein distance at most 2 and similarity at least
/// 0.6, or one that it abbreviates); empty if none is close. A candidate that differs only in case
/// is closest; ties go to the first.
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

/// "did you mean 'x'?", or empty.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// The same for candidates written "a.b.c" or "a/b/c", if `word` may be only the last part of one,
/// perhaps misspelt. Names up to five that end with it.
std::string did_you_mean_path(std::string_view word, std::span<const std::string> candidates);

}  // namespace runner
