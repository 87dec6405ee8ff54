#include "runner/parent/cli/completion/candidate.h"

#include <algorithm>
#include <functional>
#include <set>

#include "runner/parent/config/compose.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/scalar.h"
#include "runner/shared/text/comment_header.h"

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

Outline::Outline(Composer& composer, std::span<const std::string> overrides,
                 const SchemaSet& schemas, Sources& sources)
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
  return longest->targets.empty() ? ""
                                  : longest->targets.front() + key.substr(longest->name.size());
}

namespace {

constexpr std::size_t kMaxOption =
    64u << 10;  // maximum number of bytes read from an option's file to find its first sentence
constexpr std::string_view kSeparators = ",[(";

/// Returns the values in `list`, which precede the value being typed.
std::set<std::string, std::less<>> items(std::string_view list) {
  std::set<std::string, std::less<>> result;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(kSeparators), list.size());
    result.emplace(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return result;
}

Candidates options_of(const std::string& group, const Outline& outline, const FileSystem& files) {
  Candidates found;
  for (const std::string& option : outline.configs().options(group)) {
    const auto file = outline.configs().find(group + "/" + option);
    const auto text = file ? files.read(*file, kMaxOption) : std::nullopt;
    found.push_back({option, text ? first_sentence(*text) : ""});
  }
  return found;
}

/// Returns the values listed in the schema of `key`; if there are none, values similar to its
/// current one.
Candidates values_of(const std::string& key, bool in_list, std::string_view typed,
                     const Outline& outline, const FileSystem& files) {
  const KeyChoices choices = outline.choices(in_list ? key + ".0" : key);
  Candidates found;
  for (const auto& [value, description] : choices.choices) {
    found.push_back({value.text() ? element_text(value) : scalar_text(value), description});
  }
  if (key.ends_with(".kind")) {  // any kind is valid, but another one of the same family is most
                                 // likely
    const std::string family = key.substr(0, key.find('.')) + ".";
    const auto is_own = [&family](const Candidate& kind) { return kind.text.starts_with(family); };
    if (std::ranges::any_of(found, is_own)) std::erase_if(found, std::not_fn(is_own));
  }
  const Value* now = at_key(outline.recipe(), key);
  if (found.empty() && now && std::holds_alternative<bool>(now->data))
    found = {{"false"}, {"true"}};
  if (choices.is_path) {
    for (Candidate& file : complete_path(files, typed, "")) found.push_back(std::move(file));
  }
  return found;
}

Candidates possible_values(const std::string& key, bool in_list, std::string_view typed,
                           const Outline& outline, const FileSystem& files) {
  const auto alias = std::ranges::find(outline.aliases(), key, &Alias::name);
  if (alias != outline.aliases().end() && !alias->cases.empty()) {
    Candidates found;
    for (const auto& [value, overrides] : alias->cases) {
      std::string meaning;
      for (const std::string& override : overrides)
        meaning += (meaning.empty() ? "" : " ") + override;
      found.push_back({element_text(Value{value, {}}), std::move(meaning)});
    }
    return found;
  }
  std::string meant = outline.meant(key);
  const std::string config_group = meant.substr(0, meant.find('@'));
  if (outline.configs().is_group(config_group)) return options_of(config_group, outline, files);
  if (meant == "device") meant = "device.select";
  return values_of(meant, in_list, typed, outline, files);
}

}  // namespace

Candidates complete_override_value(std::string_view word, const Outline& outline,
                                   const FileSystem& files) {
  const std::size_t start = word.find_first_not_of("+~");
  const std::size_t equals = word.find('=');
  if (start == word.npos || start >= equals) return {};
  const std::string key(word.substr(start, equals - start));
  const std::string_view list = word.substr(equals + 1);
  const std::size_t separator = list.find_last_of(kSeparators);
  const std::string_view before = separator == list.npos ? "" : list.substr(0, separator + 1);
  const std::string_view typed = list.substr(before.size());
  const auto said = items(before);

  Candidates found = possible_values(key, list.starts_with('['), typed, outline, files);
  std::erase_if(found, [&](const Candidate& value) {
    return !value.text.starts_with(typed) || said.contains(value.text);
  });
  for (Candidate& value : found) value.text.insert(0, word.substr(0, word.size() - typed.size()));
  return found;
}

namespace {

Candidates complete(const FileSystem& files, std::string_view typed,
                    const std::function<bool(std::string_view)>& fits) {
  const std::size_t slash = typed.rfind('/');
  const std::string folder(slash == typed.npos ? "" : typed.substr(0, slash + 1));
  const std::string_view start = typed.substr(folder.size());
  Candidates found;
  for (const std::string& name : files.list(folder.empty() ? "." : folder)) {
    if (!name.starts_with(start) || (name.starts_with('.') && start.empty())) continue;
    if (files.is_folder(folder + name)) found.push_back({folder + name + '/'});
    else if (fits(name)) found.push_back({folder + name});
  }
  return found;
}

}  // namespace

Candidates complete_path(const FileSystem& files, std::string_view typed, std::string_view ending) {
  return complete(files, typed, [ending](std::string_view name) { return name.ends_with(ending); });
}

Candidates complete_folder(const FileSystem& files, std::string_view typed) {
  return complete(files, typed, [](std::string_view) { return false; });
}

}  // namespace runner
