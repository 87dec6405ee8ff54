#include "runner/config/interpolation_text.h"

#include <algorithm>
#include <memory>

namespace runner {

void for_all(Value& value, const std::function<void(Value&)>& change) {
  change(value);
  if (auto* list = value.list()) {
    for (Value& item : *list) for_all(item, change);
  }
  if (auto* map = value.map()) {
    for (Entry& entry : *map) for_all(entry.value, change);
  }
}

std::size_t copy_cost(const Value& value) {
  std::size_t total = 1 + value.secret_as.size() / 256;
  if (const auto* text = value.text()) total += text->size() / 256;
  if (const auto* list = value.list()) {
    for (const Value& item : *list) total += copy_cost(item);
  }
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map) total += copy_cost(entry.value);
  }
  return total;
}

std::string quoted_reference(const Interpolation& interpolation) {
  constexpr std::size_t kMaxShown = 200;
  if (interpolation.written.size() <= kMaxShown) return "'" + interpolation.written + "'";
  return describe({interpolation.written, {}});
}

bool keeps_item(const TextPieces& pieces) {
  return std::ranges::any_of(pieces, [](const TextPiece& piece) {
    const auto* inner = std::get_if<std::unique_ptr<Interpolation>>(&piece);
    return inner && is_item(**inner);
  });
}

bool holds_item(const std::string& text) {
  try {
    return keeps_item(parse_interpolations(text));
  } catch (const InterpolationSyntaxError&) {
    return false;
  }
}

std::string escaped(const std::string& literal) {
  std::string result;
  std::size_t backslashes = 0;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal.compare(i, 2, "${") == 0) result.append(backslashes + 1, '\\');
    backslashes = literal[i] == '\\' ? backslashes + 1 : 0;
    result += literal[i];
  }
  return result;
}

}  // namespace runner
