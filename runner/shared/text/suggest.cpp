#include "runner/shared/text/suggest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace runner {
namespace {

/// Counts the insertions, deletions, substitutions and swaps of adjacent characters that turn `a`
/// into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

/// Returns the length of the longest common subsequence of `a` and `b`.
std::size_t common_subsequence(std::string_view a, std::string_view b) {
  std::vector<std::size_t> last(b.size() + 1), row(b.size() + 1);
  for (const char c : a) {
    for (std::size_t j = 1; j <= b.size(); ++j)
      row[j] = c == b[j - 1] ? last[j - 1] + 1 : std::max(last[j], row[j - 1]);
    std::swap(last, row);
  }
  return last[b.size()];
}

bool equal_but_for_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

constexpr std::size_t kLongestWord = 200;  // the comparison takes time proportional to the product
                                           // of both lengths

}  // namespace

bool is_short_for(std::string_view word, std::string_view name) {
  std::string letters;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i == 0 || name[i - 1] == '_') letters += name[i];
  }
  return letters.size() > 1 && word == letters;
}

std::string nearest_name(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  double best_score = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    if (word.empty() || candidate.empty() || longer > kLongestWord) continue;
    if (equal_but_for_case(word, candidate)) return candidate;
    const std::size_t edits = is_short_for(word, candidate) ? 1 : distance(word, candidate);
    const double similarity =
        2.0 * common_subsequence(word, candidate) / (word.size() + candidate.size());
    const bool is_near = (edits <= 2 && 2 * edits <= word.size()) || similarity >= 0.6 ||
                         is_short_for(word, candidate);
    const double score =
        1.0 / (1 + edits) + similarity / 1000;  // fewest edits first, then highest similarity
    if (is_near && score > best_score) {
      best = candidate;
      best_score = score;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string name = nearest_name(word, candidates);
  return name.empty() ? "" : "did you mean '" + name + "'?";
}

std::string did_you_mean_path(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> ends, last_parts;
  for (const std::string& candidate : candidates) {
    const std::size_t cut = candidate.size() - std::min(word.size() + 1, candidate.size());
    const bool is_end =
        candidate.ends_with(word) && cut > 0 && (candidate[cut] == '.' || candidate[cut] == '/');
    if (is_end && ends.size() < kMost && !std::ranges::count(ends, candidate))
      ends.push_back(candidate);
    last_parts.push_back(candidate.substr(candidate.find_last_of("./") + 1));
  }
  if (word.find_first_of("./") == word.npos && ends.empty()) {
    const std::string near = nearest_name(word, last_parts);
    if (!near.empty())
      ends.push_back(candidates[std::ranges::find(last_parts, near) - last_parts.begin()]);
  }
  if (ends.empty()) return did_you_mean(word, candidates);
  std::string result = "did you mean ";
  for (std::size_t i = 0; i < ends.size(); ++i)
    result += (i == 0 ? "'" : i + 1 < ends.size() ? ", '" : " or '") + ends[i] + "'";
  return result + "?";
}

}  // namespace runner
