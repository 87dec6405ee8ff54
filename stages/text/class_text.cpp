#include "stages/text/class_text.h"

#include <algorithm>
#include <stdexcept>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"
#include "stages/text/vocabulary.h"

namespace stages {

std::string words_of_folder(std::string folder) {
  std::ranges::replace_if(
      folder, [](char letter) { return letter == '_' || letter == '-'; }, ' ');
  return folder;
}

std::string class_text(std::string_view text, std::string_view name) {
  constexpr std::string_view kField = "{name}";
  std::string result;
  std::size_t from = 0;
  for (std::size_t at = text.find(kField); at != text.npos; at = text.find(kField, from)) {
    result.append(text, from, at - from).append(name);
    from = at + kField.size();
  }
  if (from == 0) throw std::invalid_argument("the text '" + std::string(text) + "' has no {name}");
  return runner::printable(result.append(text.substr(from)));
}

std::string compared_name(std::string_view name) {
  return runner::invalid_utf8(name) ? std::string(name) : composed(name);
}

std::optional<std::size_t> place_of_name(std::string_view name,
                                         std::span<const std::string> names) {
  auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    const std::string wanted = compared_name(name);
    found = std::ranges::find_if(
        names, [&](const std::string& known) { return compared_name(known) == wanted; });
  }
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace stages
