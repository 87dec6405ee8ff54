#include "runner/tracker/mlflow_names.h"

#include <array>
#include <cstdio>

#include "runner/shared/disk/digest.h"
#include "runner/shared/text/utf8.h"

namespace runner {

std::string mlflow_name(std::string_view name) {
  constexpr std::size_t kLongestName = 250, kDigestDigits = 16;
  std::string result;
  for (const char c : name) {
    const bool is_part_empty = result.empty() || result.ends_with('/');
    if (is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == ' ') result += c;
    else if (c == '.') result += is_part_empty ? '_' : '.';
    else if (c == '/') result += is_part_empty ? "_/" : "/";
    else if (c == '@') result += "_at_";
    else if (static_cast<unsigned char>(c) < 0x80) result += '_';
    else {
      std::array<char, 3> hexadecimal{};
      std::snprintf(hexadecimal.data(), hexadecimal.size(), "%02x", static_cast<unsigned char>(c));
      result += hexadecimal.data();
    }
  }
  if (result.empty() || result.ends_with('/')) result += '_';
  if (result.size() > kLongestName)
    result = result.substr(0, kLongestName - kDigestDigits - 1) + "_" +
             sha256(name).substr(0, kDigestDigits);
  return result;
}

std::string mlflow_value(std::string_view value, std::size_t most) {
  constexpr std::string_view kMark = "… (cut)";
  if (value.size() <= most) return std::string(value);
  std::size_t size = most - kMark.size();
  while (size > 0 && (static_cast<unsigned char>(value[size]) & 0xC0) == 0x80) --size;
  return std::string(value.substr(0, size)) + std::string(kMark);
}

}  // namespace runner
