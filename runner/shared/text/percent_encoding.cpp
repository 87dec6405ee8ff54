#include "runner/shared/text/percent_encoding.h"

namespace runner {

std::string percent_encoded(std::string_view text, bool keeps_slash) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const unsigned char c : text) {
    if (kPlain.find(static_cast<char>(c)) != kPlain.npos || (keeps_slash && c == '/'))
      result += static_cast<char>(c);
    else result += {'%', kDigits[c >> 4], kDigits[c & 15]};
  }
  return result;
}

}  // namespace runner
