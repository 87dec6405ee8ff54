#include <algorithm>
#include <charconv>
#include <deque>
#include <utility>

#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/interpolation_parser.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

constexpr std::size_t kFewEntries = 32;  // up to this many entries, a linear search beats building
                                         // an index
constexpr std::size_t kMaxCompared = 1'000'000;  // maximum number of names to compare for "did you
                                                 // mean"

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

InterpolationPass::Resolved InterpolationPass::look_up(const Interpolation& interpolation,
                                                       const Scope& scope) {
  Found found = find(interpolation, scope);
  if (!found.value && !found.failed) report_unknown(interpolation, scope, found);
  return found.is_secret ? hidden(std::move(found.value), interpolation, scope)
                         : std::move(found.value);
}

InterpolationPass::Resolved InterpolationPass::hidden(Resolved value,
                                                      const Interpolation& interpolation,
                                                      const Scope& scope) {
  if (!value || exhausted(scope, copy_cost(*value) * (interpolation.written.size() / 256)))
    return std::nullopt;
  for_all(*value, [&](Value& part) { part.secret_as = interpolation.written; });
  return value;
}

InterpolationPass::Found InterpolationPass::find(const Interpolation& interpolation,
                                                 const Scope& scope) {
  bool is_secret = false;
  std::vector<std::string> keys;
  for (const TextPieces& pieces : interpolation.keys) {
    if (refuses_item(pieces, scope, "choose the key of another interpolation"))
      return {.failed = true};
    Resolved key = join(pieces, scope, interpolation.written);
    if (!key) return {.failed = true};
    if (is_mandatory(*key)) return {std::move(key)};
    is_secret = is_secret || !key->secret_as.empty();
    keys.push_back(*key->reveal());
  }
  const Scope* start = &root_;
  if (interpolation.dots > 0) {
    start = scope.parent;
    for (int i = 1; i < interpolation.dots && start; ++i) start = start->parent;
    if (!start) return {};
  }
  Found found = walk(*start, keys);
  found.is_secret = found.is_secret || is_secret;
  return found;
}

InterpolationPass::Found InterpolationPass::walk(const Scope& start,
                                                 const std::vector<std::string>& keys) {
  std::deque<Scope> way = {start};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Scope& here = way.back();
    if (is_interpolation(*here.value)) {
      const Value* resolved = stands_for(here);
      if (!resolved) return {.failed = true};
      return descend(*resolved, std::span(keys).subspan(i));
    }
    if (is_mandatory(*here.value)) return {*here.value};
    const Value* next = children_.find(*here.value, keys[i]);
    if (!next) return declared(here, std::span(keys).subspan(i));
    way.push_back({next, keys[i], &here});
  }
  Resolved value = resolve(way.back());
  const bool failed = !value;
  return {.value = std::move(value), .failed = failed};
}

const Value* InterpolationPass::stands_for(const Scope& scope) {
  ++depth_;
  const Value* value = stopped_ || exhausted(scope, 0) ? nullptr : remembered(scope);
  --depth_;
  return value;
}

InterpolationPass::Found InterpolationPass::descend(const Value& resolved,
                                                    std::span<const std::string> keys) {
  const Value* value = &resolved;
  for (const std::string& key : keys) {
    if (is_mandatory(*value)) return {*value};
    const Value* next = children_.find(*value, key);
    if (!next)
      return {.is_secret = !resolved.secret_as.empty(), .parent = value, .missing_key = key};
    value = next;
  }
  return {.value = *value, .is_secret = !resolved.secret_as.empty()};
}

InterpolationPass::Found InterpolationPass::declared(const Scope& here,
                                                     std::span<const std::string> keys) {
  std::vector<std::string> path = path_of(here);
  path.insert(path.end(), keys.begin(), keys.end());
  Found result{.parent = here.value, .missing_key = keys.front()};
  if (!here.value->list()) result.value = sources_.schemas.declared(document_, path);
  return result;
}

void InterpolationPass::report_unknown(const Interpolation& interpolation, const Scope& scope,
                                       const Found& found) {
  if (!found.parent) {
    error(scope, ErrorCode::kInterpolationUnknown,
          quoted_reference(interpolation) + " goes above the root of the recipe",
          "one dot means the same mapping; each additional dot goes up one level");
    return;
  }
  const std::string shown = found.is_secret ? "the key" : "'" + found.missing_key + "'";
  std::string message = quoted_reference(interpolation) + ": ", help;
  if (const auto* map = found.parent->map()) {
    message += "there is no " + shown;
    std::vector<std::string> names;
    if (!found.is_secret && (compared_ += map->size()) <= kMaxCompared) {
      for (const Entry& entry : *map) names.push_back(entry.key);
    }
    help = did_you_mean(found.missing_key, names);
  } else if (const auto* list = found.parent->list()) {
    message += "a list of " + std::to_string(list->size()) + " has no item " + shown;
    help = "indices start at 0";
  } else {
    message += describe(*found.parent) + " is not a mapping and has no " + shown;
  }
  error(scope, ErrorCode::kInterpolationUnknown, std::move(message), std::move(help));
}

}  // namespace runner
