#pragma once

#include <span>
#include <string>
#include <string_view>

namespace runner {

/// Is `word` made of the first letters of the words of `name`: "lr" of "learning_rate"?
bool is_short_for(std::string_view word, std::string_view name);

/// The candidate nearest to `word` (Damerau–Levenshtein distance at most 2, similarity of 0.6 and
/// more, or one that it is short for); empty when none is near. One that differs in case alone is
/// the nearest of all; ties go to the first.
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

/// "did you mean 'x'?", or empty.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// The same where candidates are written "a.b.c" or "a/b/c" and `word` may be only the last part of
/// one, perhaps misspelt. Up to five that end with it.
std::string did_you_mean_path(std::string_view word, std::span<const std::string> candidates);

}  // namespace runner
