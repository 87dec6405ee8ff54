#include "runner/parent/config/secret.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "runner/parent/config/override.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

constexpr const char* kMask = "***";

/// Returns what is shown for `text` under a secret key: the text itself if it is only a reference
/// to the secret, such as ${oc.env:TOKEN}, else ***.
std::string shown_for(const std::string& text) {
  if (text.find("${") == text.npos) return kMask;
  int open = 0;
  bool is_one = text.starts_with("${");
  for (std::size_t i = 0; i < text.size() && is_one; ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) is_one = i + 1 == text.size();
    if (text[i] == '\\') is_one = false;
  }
  if (!is_one || open != 0) return kMask;
  // A default for an unset variable would be visible in the record.
  const std::size_t comma = text.find(',');
  if (comma == text.npos) return text;
  std::string standby = text.substr(comma + 1, text.size() - comma - 2);
  std::erase_if(standby, is_blank);
  const bool is_empty = standby == "null" || standby == "''" || standby == "\"\"" ||
                        standby.empty() || standby == "none";
  return is_empty || (standby.starts_with("${") && shown_for(standby) == standby) ? text : kMask;
}

/// Returns `key` without the prefix of a sweep's values: "vars.api_key" for
/// "sweep.params.+vars.api_key".
std::string_view without_sweep(std::string_view key) {
  constexpr std::string_view kParams = "sweep.params.";
  if (!key.starts_with(kParams)) return key;
  key.remove_prefix(kParams.size());
  return key.substr(std::min(key.find_first_not_of('+'), key.size()));
}

bool is_secret(std::string_view key, const Value& value) {
  key = without_sweep(key);
  if (!key.starts_with("vars.")) return false;
  if (value.text()) return is_secret_key(key);
  const auto* number = std::get_if<std::int64_t>(&value.data);
  return number && is_secret_key_of(key, *number);
}

/// Marks the secrets in `value`, which is at the dotted `key`. Returns true if any of them is not
/// shown as written.
bool hide_at(const std::string& key, Value& value) {
  bool found = is_secret(key, value);
  if (found) value.secret_as = value.reveal() ? shown_for(*value.reveal()) : kMask;
  if (!found && value.reveal() && value.reveal()->find("://") != std::string::npos) {
    std::string shown = without_url_secrets(*value.reveal());
    found = shown != *value.reveal();
    if (found) value.secret_as = std::move(shown);
  }
  if (found && value.says(value.secret_as)) found = false;
  if (auto* list = value.list()) {
    for (Value& item : *list) found |= hide_at(key, item);
  }
  if (auto* map = value.map()) {
    for (Entry& entry : *map)
      found |= hide_at(key.empty() ? entry.key : key + "." + entry.key, entry.value);
  }
  return found;
}

/// Returns the environment variables with secret names that the interpolations in `text` read.
std::vector<std::string> variables_read_by(const std::string& text) {
  constexpr std::string_view kRead = "${oc.env:";
  std::vector<std::string> names;
  for (std::size_t at = 0; (at = text.find(kRead, at)) != text.npos;) {
    at += kRead.size();
    std::string name = text.substr(at, text.find_first_of(",}", at) - at);
    std::erase_if(name, is_blank);
    if (names_a_secret(name)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

SecretTexts::SecretTexts(const Value& recipe, const Environment& environment) {
  constexpr std::size_t kShortest = 4;
  const auto add = [&](const std::string& text, const std::string& shown) {
    if (text.size() >= kShortest) shown_.emplace_back(text, shown);
  };
  const auto collect = [&](const auto& self, const Value& value) -> void {
    const auto* number = std::get_if<std::int64_t>(&value.data);
    if (!value.secret_as.empty()) {
      add(value.reveal() ? *value.reveal()
          : number       ? std::to_string(*number)
                         : "",
          value.secret_as);
      for (const std::string& name : variables_read_by(value.secret_as))
        if (const auto secret = environment(name)) add(*secret, "${oc.env:" + name + "}");
    }
    if (const auto* list = value.list()) {
      for (const Value& item : *list) self(self, item);
    }
    if (const auto* map = value.map()) {
      for (const Entry& entry : *map) self(self, entry.value);
    }
  };
  collect(collect, recipe);
  std::ranges::stable_sort(shown_, std::greater(),
                           [](const auto& one) { return one.first.size(); });
}

std::string SecretTexts::hidden_in(std::string text) const {
  for (const auto& [secret, shown] : shown_) {
    for (std::size_t at = 0; (at = text.find(secret, at)) != text.npos; at += shown.size())
      text.replace(at, secret.size(), shown);
  }
  return text;
}

Diagnostic SecretTexts::hidden_in(Diagnostic diagnostic) const {
  for (std::string* const text : {&diagnostic.message, &diagnostic.help})
    *text = hidden_in(std::move(*text));
  for (Note& note : diagnostic.notes) note.message = hidden_in(std::move(note.message));
  return diagnostic;
}

void SecretTexts::hide_in(nlohmann::ordered_json& answer) const {
  if (shown_.empty()) return;
  if (answer.is_string()) answer = hidden_in(answer.get<std::string>());
  if (answer.is_structured()) {
    for (auto& part : answer) hide_in(part);
  }
}

bool is_lost_secret(const Value& value) {
  if (!value.reveal()) return false;
  const std::string& text = *value.reveal();
  return text == kMask || (text.find("://") != text.npos && text.find(kMask) != text.npos);
}

Diagnostics lost_secrets(const Value& options, const std::string& pointer) {
  Diagnostics lost;
  const auto add = [&](const Value& value, const std::string& place) {
    const Diagnostics more = lost_secrets(value, place);
    lost.insert(lost.end(), more.begin(), more.end());
  };
  if (is_lost_secret(options))
    lost.push_back({ErrorCode::kMandatoryValue, options.where, pointer,
                    "this is a secret, which the record does not store",
                    "enter it again as an override"});
  if (const auto* list = options.list()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      add((*list)[i], pointer + "/" + std::to_string(i));
  }
  if (const auto* map = options.map()) {
    for (const Entry& entry : *map) add(entry.value, pointer_to(pointer, entry.key));
  }
  return lost;
}

Diagnostics shown_secrets(const Value& resolved, std::initializer_list<std::string_view> keys) {
  Diagnostics found;
  const auto look = [&](const auto& self, const Value& value, const std::string& pointer) -> void {
    if (!value.secret_as.empty()) {
      found.push_back(
          {ErrorCode::kOptionConflict, value.where, pointer,
           "this comes from a secret (" + value.secret_as + "), but would be public",
           "leave the secret out; a script can read an environment variable itself, as $NAME"});
      return;
    }
    if (const auto* list = value.list()) {
      for (std::size_t i = 0; i < list->size(); ++i)
        self(self, (*list)[i], pointer + "/" + std::to_string(i));
    }
    if (const auto* map = value.map()) {
      for (const Entry& entry : *map) self(self, entry.value, pointer_to(pointer, entry.key));
    }
  };
  for (const std::string_view key : keys) {
    std::string pointer = "/" + std::string(key);
    std::ranges::replace(pointer, '.', '/');
    if (const Value* value = at_key(resolved, key)) look(look, *value, pointer);
  }
  return found;
}

void hide_secrets(Value& recipe) { hide_at("", recipe); }

bool hide_secrets(Override& override) {
  bool found = false;
  const auto hide = [&](Value& value) { found |= hide_at(override.key, value); };
  if (override.value) hide(*override.value);
  if (override.edit) std::ranges::for_each(override.edit->values, hide);
  if (override.sweep) {
    std::ranges::for_each(override.sweep->choices, hide);
    for (std::vector<Override>& row : override.sweep->rows) {
      for (Override& one : row) found |= hide_secrets(one);
    }
  }
  if (found) override.value_text = kMask;
  return found;
}

bool hide_given_again(Override& override, const Value& recipe) {
  const Value* was = at_key(recipe, override.key);
  if (!override.value || !was || !is_lost_secret(*was)) return false;
  override.value->secret_as = kMask;
  return true;
}

std::string without_secrets(const std::string& typed) {
  const std::size_t equals = typed.find('=');
  if (equals == typed.npos) return typed;
  if (is_secret_key(std::string_view(typed).substr(0, equals)))
    return typed.substr(0, equals + 1) + kMask;
  const SourceText source{"", typed};
  Result<Override> read = parse_override(source);
  return read && hide_secrets(*read) ? override_text(*read) : typed;
}

std::string without_secrets(const Override& typed, std::span<const Override> meant) {
  const std::string& text = typed.where.source->contents;
  std::string shown = without_secrets(text);
  const bool found = std::ranges::any_of(meant, [](Override one) { return hide_secrets(one); });
  return found && shown == text ? text.substr(0, text.find('=') + 1) + kMask : shown;
}

namespace {

bool sets_value(const Override& override) {
  return override.value && !override.value->map() && override.kind != OverrideKind::kDelete;
}

/// True if the override completely replaces the earlier value of its key.
bool replaces_all(const Override& override) {
  return sets_value(override) || (override.kind == OverrideKind::kDelete && !override.value);
}

/// Returns the override as typed, with its secrets hidden.
std::string as_typed(const Override& override) {
  return without_secrets(override.where.source ? override.where.source->contents
                                               : override_text(override));
}

/// Returns the key with its package, so that the same key in another package is a different one.
std::string full_key(const Override& override, std::string_view key) {
  return std::string(key) + (override.package ? "@" + *override.package : "");
}

/// True if `other` sets the key again under the same name. In Hydra, the last override of a key
/// wins without a warning, and scripts that append overrides to a default command rely on that.
bool is_typed_alike(const Override& one, const Override& other) {
  return other.kind != OverrideKind::kDelete && one.alias == other.alias;
}

/// Returns the override that makes the one at `place` ineffective: the last one that replaces its
/// key, or an ancestor of its key. Null if there is none.
const Override* later_one(std::span<const Override> overrides, std::size_t place,
                          const std::unordered_map<std::string, std::size_t>& last) {
  const Override& one = overrides[place];
  for (std::size_t end = one.key.size(); end != std::string::npos && end > 0;
       end = one.key.rfind('.', end - 1)) {
    const auto found = last.find(full_key(one, std::string_view(one.key).substr(0, end)));
    if (found == last.end() || found->second <= place) continue;
    const Override& other = overrides[found->second];
    const bool is_same_key = end == one.key.size();
    const bool is_meant = is_same_key && (is_typed_alike(one, other) ||
                                          (other.value && same_data(*one.value, *other.value)));
    if (!is_meant) return &other;
  }
  return nullptr;
}

}  // namespace

Diagnostics overruled_overrides(std::span<const Override> overrides) {
  std::unordered_map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    if (replaces_all(overrides[i]))
      last.insert_or_assign(full_key(overrides[i], overrides[i].key), i);
  }
  Diagnostics found;
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    const Override& one = overrides[i];
    const Override* const later = sets_value(one) ? later_one(overrides, i, last) : nullptr;
    if (!later) continue;
    found.push_back({ErrorCode::kOptionConflict,
                     one.key_where,
                     "",
                     "'" + as_typed(one) + "' has no effect: '" + as_typed(*later) +
                         "', which comes after it, " + (sets_value(*later) ? "sets" : "removes") +
                         " '" + later->key + "'",
                     "leave one of them out",
                     {},
                     Severity::kWarning});
  }
  return found;
}

}  // namespace runner
