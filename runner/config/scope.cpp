#include "runner/config/scope.h"

#include <algorithm>
#include <charconv>

namespace runner {
namespace {

constexpr std::size_t kFewEntries = 32;  // as many are faster looked through than indexed

}  // namespace

std::vector<std::string> path_of(const Scope& scope) {
  std::vector<std::string> path;
  for (const Scope* step = &scope; step->parent; step = step->parent) path.push_back(step->key);
  std::ranges::reverse(path);
  return path;
}

std::string dotted_path(const Scope& scope) {
  std::string result;
  for (const std::string& key : path_of(scope)) result += (result.empty() ? "" : ".") + key;
  return result;
}

std::string pointer_of(const Scope& scope) {
  std::string result;
  for (const std::string& key : path_of(scope)) result = pointer_to(result, key);
  return result;
}

const Value* ChildFinder::find(const Value& parent, const std::string& key) {
  if (const auto* list = parent.list()) {
    std::int64_t index = 0;
    const auto result = std::from_chars(key.data(), key.data() + key.size(), index);
    if (result.ec != std::errc() || result.ptr != key.data() + key.size()) return nullptr;
    const auto size = static_cast<std::int64_t>(list->size());
    if (index < 0) index += size;
    return index >= 0 && index < size ? &(*list)[static_cast<std::size_t>(index)] : nullptr;
  }
  const auto* map = parent.map();
  if (!map || map->size() <= kFewEntries) return parent.find(key);
  auto& index = indexes_[&parent];
  if (index.empty()) {
    for (const Entry& entry : *map) index.emplace(entry.key, &entry.value);
  }
  const auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace runner
