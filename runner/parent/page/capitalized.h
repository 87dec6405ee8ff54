#pragma once

#include <string>
#include <utility>

namespace runner {

/// Returns `text` with its first letter in upper case, for the start of a sentence or a heading.
inline std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace runner
