#include "stages/text/same_name.h"

#include <algorithm>

#include "runner/shared/text/utf8.h"
#include "stages/text/vocabulary.h"

namespace stages {

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
