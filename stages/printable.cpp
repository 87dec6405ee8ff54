#include "stages/printable.h"

#include <algorithm>

namespace stages {

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string result(text.substr(0, kLongest));
  std::ranges::replace_if(
      result, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text.size() > kLongest ? result + "…" : result;
}

}  // namespace stages
