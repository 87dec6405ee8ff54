#include "runner/parent/cli/completion/outline.h"

#include <algorithm>

#include "runner/parent/config/compose.h"

namespace runner {
namespace {

std::vector<std::string> outline_words(std::string_view key) {
  std::vector<std::string> words;
  while (!key.empty()) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    words.emplace_back(key.substr(0, dot));
    key.remove_prefix(std::min(dot + 1, key.size()));
  }
  return words;
}

template <typename T>
void sort_and_unite(std::vector<T>& names) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

Outline::Outline(Composer& composer, std::span<const std::string> overrides, const SchemaSet& schemas, Sources& sources)
    : composer_(composer), schemas_(schemas) {
  auto composition = compose_leniently(composer, overrides, sources);
  std::vector<std::string> keys = composer.configs().groups();
  if (composition) {
    for (const GroupChoice& choice : composition->defaults.choices) keys.push_back(choice.key);
    has_schema_ = composition->has_schema;
    recipe_ = std::move(composition->unresolved);
  }
  sort_and_unite(keys);
  for (const std::string& key : keys) {
    Group group{key};
    if (composition) {
      const auto choice = std::ranges::find(composition->defaults.choices, key, &GroupChoice::key);
      group.is_listed = choice != composition->defaults.choices.end();
      if (group.is_listed) group.chosen = choice->option;
    }
    groups_.push_back(std::move(group));
  }
}

const Outline::Group* Outline::group(std::string_view key) const {
  const auto found = std::ranges::find(groups_, key, &Group::key);
  return found == groups_.end() ? nullptr : &*found;
}

std::vector<std::string> Outline::options(const Group& group) const {
  return configs().options(group.key.substr(0, group.key.find('@')));
}

std::vector<std::string> Outline::keys_below(const std::string& key) const {
  std::vector<std::string> keys;
  const Value* value = at_key(recipe_, key);
  if (value && value->map()) {
    for (const Entry& entry : *value->map()) keys.push_back(entry.key);
  }
  if (has_schema_) {
    for (std::string& declared : schemas_.declared_keys(recipe_, outline_words(key)))
      keys.push_back(std::move(declared));
  }
  sort_and_unite(keys);
  return keys;
}

KeyChoices Outline::choices(const std::string& key) const {
  return has_schema_ ? schemas_.choices(recipe_, outline_words(key)) : KeyChoices();
}

std::string Outline::meant(const std::string& key) const {
  const Alias* longest = nullptr;
  for (const Alias& alias : aliases()) {
    const bool fits = key == alias.name || key.starts_with(alias.name + ".");
    if (fits && (!longest || alias.name.size() > longest->name.size())) longest = &alias;
  }
  if (!longest) return key;
  return longest->targets.empty() ? "" : longest->targets.front() + key.substr(longest->name.size());
}

}  // namespace runner
