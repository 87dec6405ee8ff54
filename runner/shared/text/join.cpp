#include "runner/shared/text/join.h"

#include <algorithm>

namespace runner {

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text += separator;
    text += part;
  }
  return text;
}

std::string listed(std::span<const std::string> names, std::size_t most, std::string_view quote) {
  std::string text;
  for (const std::string& name : names.first(std::min(names.size(), most))) {
    if (!text.empty()) text += ", ";
    text.append(quote).append(name).append(quote);
  }
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

std::string counted(std::size_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

std::string either(std::span<const std::string> names, std::size_t most) {
  std::string text;
  const std::size_t shown = std::min(names.size(), most);
  for (std::size_t i = 0; i < shown; ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return shown < names.size() ? text + " or " + std::to_string(names.size() - shown) + " more"
                              : text;
}

}  // namespace runner
