#include "runner/parent/config/apply_override.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/key_places.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/scalar.h"
#include "runner/parent/keys/tracking_service.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

std::vector<std::string> split(std::string key) {
  std::ranges::replace(key, '/', '.');
  std::vector<std::string> parts;
  for (std::size_t start = 0;;) {
    const std::size_t end = key.find('.', start);
    parts.push_back(key.substr(start, end - start));
    if (end == std::string::npos) return parts;
    start = end + 1;
  }
}

/// Returns the list item with the index `key`; null if `key` is not an index or is out of range.
Value* item(Value::List& list, const std::string& key) {
  std::size_t index = list.size();
  const auto result = std::from_chars(key.data(), key.data() + key.size(), index);
  return result.ptr == key.data() + key.size() && index < list.size() ? &list[index] : nullptr;
}

/// Applies one override to the recipe.
class Application {
 public:
  Application(Value& recipe, const Override& override, const RecipeKeys& keys,
              std::span<const Alias> aliases, KeyPlaces& places, Diagnostics& errors)
      : recipe_(recipe),
        override_(override),
        keys_(keys),
        aliases_(aliases),
        places_(places),
        errors_(errors),
        path_(split(override.key)) {}

  void apply() {
    if (override_.edit) return edit();
    switch (override_.kind) {
      case OverrideKind::kChange:
        return change();
      case OverrideKind::kAdd:
        return add();
      case OverrideKind::kForceAdd:
        return force();
      case OverrideKind::kDelete:
        return remove();
    }
  }

 private:
  std::string dotted(std::size_t parts) const {
    std::string result;
    for (std::size_t i = 0; i < parts; ++i) result += (i ? "." : "") + path_[i];
    return result;
  }
  std::string pointer(std::size_t parts) const {
    std::string result;
    for (std::size_t i = 0; i < parts; ++i) result = pointer_to(result, path_[i]);
    return result;
  }
  /// Returns the override as it would be typed with the prefix of `kind`, with aliases replaced.
  std::string with(OverrideKind kind) const {
    return std::string(prefix(kind)) + override_.key + "=" + override_.value_text;
  }

  void error(ErrorCode code, std::size_t parts, std::string message, std::string help) {
    if (!override_.alias.empty())
      message =
          "'" + override_.alias + "' stands for '" + override_.key + "': " + std::move(message);
    errors_.push_back(
        {code, override_.key_where, pointer(parts), std::move(message), std::move(help)});
  }

  /// Returns the value of the key `path_[depth]` in `parent`, the value at the preceding keys; null
  /// if there is none.
  Value* child(Value& parent, std::size_t depth) {
    constexpr std::size_t kFewEntries = 32;
    if (parent.list()) return item(*parent.list(), path_[depth]);
    const bool is_large = parent.map() && parent.map()->size() > kFewEntries;
    return is_large ? places_.find(parent, pointer(depth), path_[depth])
                    : parent.find(path_[depth]);
  }
  /// Replaces `existing`, the value at the full path.
  void replace(Value& existing, Value value) {
    if (existing.map() || existing.list()) places_.forget(pointer(path_.size()));
    existing = std::move(value);
  }

  /// Returns the value at the longest existing prefix of the path, and sets `found` to the number
  /// of keys in that prefix.
  Value* walk(std::size_t& found) {
    Value* value = &recipe_;
    for (found = 0; found < path_.size(); ++found) {
      Value* next = child(*value, found);
      if (!next) return value;
      value = next;
    }
    return value;
  }

  /// Returns the keys declared in the mapping at `path` and the aliases below it, so that a
  /// misspelled alias gets the right suggestion.
  std::vector<std::string> known_keys(RecipeKeys::Path path) const {
    std::vector<std::string> known = keys_.declared_keys(recipe_, path);
    std::string prefix;
    for (const std::string& key : path) prefix += key + '.';
    for (const Alias& alias : aliases_) {
      if (alias.name.starts_with(prefix)) known.push_back(alias.name.substr(prefix.size()));
    }
    return known;
  }

  /// Reports why `path_[found]` does not exist in `parent`.
  void unknown_key(Value& parent, std::size_t found, ErrorCode code) {
    const std::string key = path_[found];
    if (parent.list()) {
      return error(code, found,
                   "'" + dotted(found) + "' is a list of " + std::to_string(parent.list()->size()) +
                       " and has no item '" + key + "'",
                   "indices start at 0");
    }
    if (is_interpolation(parent)) {
      return error(
          code, found,
          "'" + dotted(found) + "' is the interpolation " + *parent.text() + " and has no keys",
          "override what it refers to");
    }
    const bool can_be_added = code != ErrorCode::kCannotDelete && keys_.may_add(recipe_, path_);
    if (!parent.map() && found > 0 && !parent.is_null()) {
      return error(
          code, found,
          "'" + dotted(found) + "' is " + describe(parent) + " and has no key '" + key + "'",
          can_be_added ? "to make it a mapping: " + with(OverrideKind::kAdd) : "");
    }
    // If an alias was typed, the user did not write the path, and so cannot have misplaced the key.
    const bool may_be_elsewhere = code != ErrorCode::kCannotDelete && override_.alias.empty();
    const auto deeper = may_be_elsewhere ? keys_below(parent, found) : std::vector<std::string>();
    if (!deeper.empty()) {
      std::string help = "did you mean";
      for (const std::string& path : deeper)
        help += (path == deeper.front() ? " '" : " or '") + path + "'";
      return error(code, found + 1, unknown(found), help + "?");
    }
    // Skip keys that are declared by the schema but missing from the recipe: the unknown key comes
    // after them.
    const Value nothing;
    const Value* last = &parent;
    while (found + 1 < path_.size() && keys_.declared(recipe_, std::span(path_).first(found + 1))) {
      last = &nothing;
      ++found;
    }
    const auto kinds = keys_.other_kinds(recipe_, std::span(path_).first(found + 1));
    if (!kinds.empty()) {
      return error(
          code, found + 1,
          "'" + path_[found] + "' has no effect here: it is an option of " + join(kinds, ", "),
          "leave it out, or choose another kind for '" + dotted(found) + "'");
    }
    const std::vector<std::string> declared = known_keys(std::span(path_).first(found));
    std::vector<std::string> near_keys;
    if (const auto* map = last->map())
      std::ranges::transform(*map, std::back_inserter(near_keys), &Entry::key);
    near_keys.insert(near_keys.end(), declared.begin(), declared.end());
    std::string help = path_.front() == "vars" ? "" : instead_of_tracking_service(path_[found]);
    if (help.empty()) help = did_you_mean(path_[found], near_keys);
    if (help.empty() && !declared.empty()) help = where_listed(*last, found);
    if (help.empty() && can_be_added) help = "to add it: " + with(OverrideKind::kAdd);
    if (help.empty() && may_be_elsewhere) help = other_place(found, declared);
    error(code, found + 1, unknown(found), std::move(help));
  }

  /// Returns advice on what to write instead of `path_[found]`, which the schema does not accept.
  std::string other_place(std::size_t found, const std::vector<std::string>& declared) const {
    if (found == 0 && !override_.value_text.empty())
      return "for your own values: +vars." + override_.key + "=" + override_.value_text;
    return declared.empty() ? ""
                            : "the keys of '" + dotted(found) + "' are: " + join(declared, ", ");
  }

  std::string unknown(std::size_t found) const {
    return "unknown key '" + path_[found] + "'" + (found ? " in '" + dotted(found) + "'" : "");
  }

  /// Returns advice to use the command that lists the keys of `parent`, the value at the first
  /// `found` keys of the path. Empty if `parent` is not in a stage with a kind.
  std::string where_listed(const Value& parent, std::size_t found) const {
    const Value* stage = found > 0 ? recipe_.find(path_[0]) : nullptr;
    const Value* kind = stage ? stage->find("kind") : nullptr;
    if (!kind || !kind->text()) return "";
    std::string name = *kind->text();
    const Value* own = found > 1 ? parent.find("kind") : nullptr;  // such as train/optimizer/adam
    if (own && own->text()) {
      name.resize(std::min(name.size(), name.find('.')));
      for (std::size_t i = 1; i < found; ++i) name += '/' + path_[i];
      name += '/' + *own->text();
    }
    return "`retort explain " + name + "` lists its keys";
  }

  /// Returns the paths below `parent` that end in the key `path_[found]`, such as train.lr for lr.
  /// Empty if there are more than a few.
  std::vector<std::string> keys_below(const Value& parent, std::size_t found) const {
    constexpr std::size_t kMaxPlaces = 3;
    std::vector<std::string> at(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(found));
    std::vector<std::string> places;
    look_below(parent, path_[found], at, places);
    return places.size() <= kMaxPlaces ? places : std::vector<std::string>();
  }

  void look_below(const Value& value, const std::string& key, std::vector<std::string>& at,
                  std::vector<std::string>& places) const {
    constexpr std::size_t kMaxDepth = 6;
    if (!value.map() || at.size() > kMaxDepth) return;
    for (const Entry& entry : *value.map()) {
      const bool is_no_setting =
          at.empty() && (entry.key == "aliases" || entry.key == "vars" || entry.key == "sweep");
      if (is_no_setting || !entry.value.map()) continue;
      at.push_back(entry.key);
      const auto declared = known_keys(at);
      const auto is_meant = [&](const std::string& name) {
        return name == key || is_short_for(key, name);
      };
      const auto meant = std::ranges::find_if(declared, is_meant);
      if (entry.value.find(key) || meant != declared.end()) {
        std::string place;
        for (const std::string& part : at) place += part + '.';
        places.push_back(place + (entry.value.find(key) ? key : *meant));
      }
      look_below(entry.value, key, at, places);
      at.pop_back();
    }
  }

  /// Writes `value` at the path. Creates mappings along the way, replacing anything that is not a
  /// container.
  void create(Value value) {
    Value* parent = &recipe_;
    for (std::size_t i = 0; i + 1 < path_.size(); ++i) {
      parent = &descend(*parent, i);
      if (!parent->map() && !parent->list()) parent->data = Value::Map{};
    }
    replace(descend(*parent, path_.size() - 1), std::move(value));
  }
  Value& descend(Value& parent, std::size_t depth) {
    if (Value* existing = child(parent, depth)) return *existing;
    return parent.map()
        ->emplace_back(Entry{path_[depth], override_.key_where, {nullptr, override_.key_where}})
        .value;
  }

  /// True if a list on the path would need a new item, which is not allowed.
  bool misses_item() {
    std::size_t found = 0;
    Value* last = walk(found);
    if (found == path_.size() || !(last->list() || is_interpolation(*last))) return false;
    unknown_key(*last, found, ErrorCode::kOverrideUnknownKey);
    return true;
  }

  bool clashes(const Value& existing) {
    const Value& value = *override_.value;
    if (!(existing.list() && value.map()) && !(existing.map() && value.list())) return false;
    errors_.push_back(container_clash(existing, value, pointer(path_.size())));
    return true;
  }

  void change() {
    std::size_t found = 0;
    Value* existing = walk(found);
    if (found < path_.size()) {
      if (!keys_.declared(recipe_, path_))
        return unknown_key(*existing, found, ErrorCode::kOverrideUnknownKey);
      if (!misses_item()) create(*override_.value);
      return;
    }
    if (clashes(*existing)) return;
    if (!existing->map() || !override_.value->map()) {
      if (existing->map() && !existing->map()->empty()) warn_of_loss();
      replace(*existing, *override_.value);
      return;
    }
    for (const Entry& entry : *override_.value->map()) {
      Override inner = override_;
      inner.key += '.' + entry.key;
      inner.value = entry.value;
      inner.value_text =
          entry.value.map() || entry.value.list() ? "VALUE" : scalar_text(entry.value);
      Application(recipe_, inner, keys_, aliases_, places_, errors_, path_, entry.key).change();
    }
  }

  /// Warns that a scalar has replaced a mapping, something that Hydra does silently.
  void warn_of_loss() {
    errors_.push_back(
        {ErrorCode::kContainerClash,
         override_.value->where,
         pointer(path_.size()),
         "'" + dotted(path_.size()) + "' was a mapping and is now " + describe(*override_.value),
         "to keep the mapping, override its keys instead",
         {},
         Severity::kWarning});
  }

  void add() {
    if (misses_item()) return;
    std::size_t found = 0;
    Value* existing = walk(found);
    if (found < path_.size()) return create(*override_.value);
    if (existing->is_null() || is_mandatory(*existing)) {
      replace(*existing, *override_.value);
      return;
    }
    if (override_.value->list() && !existing->map()) {
      replace(*existing, *override_.value);
      return;
    }
    if (override_.value->map() || override_.value->list()) return force();
    exists_already(*existing);
  }

  void exists_already(const Value& existing) {
    error(ErrorCode::kOverrideExists, path_.size(),
          "'" + dotted(path_.size()) + "' already exists: " + describe(existing),
          "to change it, leave out the +: " + with(OverrideKind::kChange));
  }

  void force() {
    if (misses_item()) return;
    std::size_t found = 0;
    Value* existing = walk(found);
    if (found < path_.size()) return create(*override_.value);
    if (clashes(*existing)) return;
    if (existing->map() && override_.value->map()) {
      merge(*existing, *override_.value, pointer(path_.size()), errors_);
      places_.forget(pointer(path_.size()));
    } else {
      replace(*existing, *override_.value);
    }
  }

  /// Applies append(x), replace(x) and the other edits. A list declared only by the schema starts
  /// from its default.
  void edit() {
    const Edit& edit = *override_.edit;
    std::size_t found = 0;
    Value* existing = walk(found);
    if (found < path_.size()) {
      const std::optional<Value> fallback = keys_.declared(recipe_, path_);
      if (!fallback) return unknown_key(*existing, found, ErrorCode::kOverrideUnknownKey);
      if (misses_item()) return;
      create(*fallback);
      existing = walk(found);
    }
    if (edit.kind == Edit::Kind::kReplace) {
      replace(*existing, edit.values.front());
      return;
    }
    if (existing->is_null() || is_mandatory(*existing))
      replace(*existing, Value{Value::List{}, override_.where});
    if (!existing->list()) {
      return error(ErrorCode::kBadEdit, path_.size(),
                   "'" + dotted(path_.size()) + "' is " + describe(*existing) + ", not a list",
                   is_interpolation(*existing) ? "write the whole list" : "");
    }
    places_.forget(pointer(path_.size()));
    if (const auto problem = apply_edit(*existing->list(), edit)) {
      return error(ErrorCode::kBadEdit, path_.size(),
                   "'" + dotted(path_.size()) + "' " + problem->message, problem->help);
    }
    existing->where = override_.where;
    existing->is_default = false;
  }

  void remove() {
    std::size_t found = 0;
    Value* existing = walk(found);
    if (found < path_.size()) return unknown_key(*existing, found, ErrorCode::kCannotDelete);
    if (override_.value && !same_data(*existing, *override_.value)) {
      return error(ErrorCode::kCannotDelete, path_.size(),
                   "'" + dotted(found) + "' is " + describe(*existing) + ", not " +
                       describe(*override_.value),
                   "to delete it whatever its value: ~" + override_.key);
    }
    Value* parent = &recipe_;
    for (std::size_t i = 0; i + 1 < path_.size(); ++i) parent = child(*parent, i);
    places_.forget(pointer(path_.size() - 1));
    if (auto* list = parent->list()) {
      list->erase(list->begin() + (existing - list->data()));
    } else {
      std::erase_if(*parent->map(), [&](const Entry& entry) { return entry.key == path_.back(); });
    }
  }

  /// Applies one entry of a mapping that `override` merges into the recipe. `key` may contain dots.
  Application(Value& recipe, const Override& override, const RecipeKeys& keys,
              std::span<const Alias> aliases, KeyPlaces& places, Diagnostics& errors,
              std::vector<std::string> path, std::string key)
      : recipe_(recipe),
        override_(override),
        keys_(keys),
        aliases_(aliases),
        places_(places),
        errors_(errors),
        path_(std::move(path)) {
    path_.push_back(std::move(key));
  }

  Value& recipe_;
  const Override& override_;
  const RecipeKeys& keys_;
  const std::span<const Alias> aliases_;
  KeyPlaces& places_;
  Diagnostics& errors_;
  std::vector<std::string> path_;
};

}  // namespace

Diagnostics apply_overrides(Value& recipe, std::span<const Override> overrides,
                            const RecipeKeys& keys, std::span<const Alias> aliases) {
  Diagnostics errors;
  KeyPlaces places;
  for (const Override& override : overrides)
    Application(recipe, override, keys, aliases, places, errors).apply();
  return errors;
}

}  // namespace runner
