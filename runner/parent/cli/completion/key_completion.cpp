#include "runner/parent/cli/completion/key_completion.h"

#include <algorithm>

#include "runner/parent/config/override.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

bool can_be_typed(const std::string& key) { return override_key_length(key) == key.size(); }

std::string first_sentence_of(const std::string& description) {
  const std::size_t stop = description.find(". ");
  return stop == description.npos ? description : description.substr(0, stop + 1);
}

/// A value beside its key.
std::string brief(const Value& value) {
  const std::string text = value.text() ? *value.text() : describe(value);
  return columns(text) > 40 ? std::string(first_columns(text, 40)) + "…" : text;
}

class KeyCompletion {
 public:
  KeyCompletion(const Outline& outline, OverrideKind kind, std::string_view typed)
      : outline_(outline), kind_(kind), typed_(typed) {}

  Candidates complete() {
    for (const Outline::Group& group : outline_.groups()) take_group(group);
    if (kind_ == OverrideKind::kChange || kind_ == OverrideKind::kForceAdd) {
      for (const Alias& alias : outline_.aliases()) take_alias(alias);
    }
    const std::size_t dot = typed_.rfind('.');
    const std::string parent(typed_.substr(0, dot == typed_.npos ? 0 : dot));
    const std::string meant = outline_.meant(parent);
    if (parent.empty() || !meant.empty()) {
      for (const std::string& key : outline_.keys_below(meant)) {
        if (parent.empty() && is_about_recipe(key)) continue;
        take_key(parent.empty() ? key : meant + "." + key, parent.empty() ? key : parent + "." + key);
      }
    }
    std::ranges::sort(found_);
    const auto same_text = [](const Candidate& a, const Candidate& b) { return a.text == b.text; };
    found_.erase(std::unique(found_.begin(), found_.end(), same_text), found_.end());
    return std::move(found_);
  }

 private:
  /// Keys of a recipe that nobody sets by an override.
  static bool is_about_recipe(const std::string& key) {
    return key == "schema" || key == "aliases" || key == "defaults" || key == "kind";
  }

  void add(const std::string& name, std::string_view end, std::string description) {
    if (!name.starts_with(typed_) || !can_be_typed(name)) return;
    found_.push_back({std::string(prefix(kind_)) + name + std::string(end), std::move(description)});
  }

  /// May an override with this prefix choose an option of `group`? Where nothing composes, nobody knows.
  bool can_choose(const Outline::Group& group) const {
    if (kind_ == OverrideKind::kChange) return group.is_listed || outline_.recipe().map()->empty();
    if (kind_ == OverrideKind::kAdd) return !group.is_listed;
    return kind_ == OverrideKind::kForceAdd || group.chosen;
  }

  void take_group(const Outline::Group& group) {
    if (!can_choose(group)) return;
    if (kind_ == OverrideKind::kDelete) add(group.key, "", "config group, now " + *group.chosen);
    else add(group.key, "=", group.chosen ? "config group, now " + *group.chosen : "config group");
  }

  void take_alias(const Alias& alias) {
    if (!alias.cases.empty()) return add(alias.name, "=", "alias");
    if (alias.targets.empty()) return;
    const std::string& target = alias.targets.front();
    const Outline::Group* group = outline_.group(target);
    if (group && can_choose(*group)) add(alias.name, "=", "alias of " + target);
    take_key(target, alias.name, "alias of " + target);
  }

  /// `key` is the one that is meant, `shown` what is typed for it.
  void take_key(const std::string& key, const std::string& shown, const std::string& description = "") {
    const Value* value = at_key(outline_.recipe(), key);
    if (kind_ == OverrideKind::kDelete && !value) return;
    if (!shown.starts_with(typed_)) return;
    const KeyChoices choices = outline_.choices(key);
    const std::string summary = description.empty() ? first_sentence_of(choices.description) : description;
    const bool has_keys = (value && value->map()) || !outline_.keys_below(key).empty();
    if (has_keys) add(shown, ".", summary);
    if (kind_ == OverrideKind::kDelete) return add(shown, "", summary);
    const bool is_leaf = !has_keys || choices.takes_scalar || key == "device";
    if (!is_leaf || (kind_ == OverrideKind::kAdd && value)) return;
    add(shown, "=", (value && !value->map() ? "[" + brief(*value) + "] " : "") + summary);
  }

  const Outline& outline_;
  OverrideKind kind_;
  std::string_view typed_;
  Candidates found_;
};

}  // namespace

Candidates complete_override_key(std::string_view word, const Outline& outline) {
  OverrideKind kind = OverrideKind::kChange;
  if (word.starts_with('~')) kind = OverrideKind::kDelete;
  else if (word.starts_with("++")) kind = OverrideKind::kForceAdd;
  else if (word.starts_with('+')) kind = OverrideKind::kAdd;
  return KeyCompletion(outline, kind, word.substr(prefix(kind).size())).complete();
}

Candidates complete_dotted_key(std::string_view word, const Outline& outline) {
  const std::size_t dot = word.rfind('.');
  const std::string parent(word.substr(0, dot == word.npos ? 0 : dot));
  Candidates found;
  for (const std::string& key : outline.keys_below(parent)) {
    const std::string whole = parent.empty() ? key : parent + "." + key;
    if (!whole.starts_with(word)) continue;
    found.push_back({whole, first_sentence_of(outline.choices(whole).description)});
    if (!outline.keys_below(whole).empty()) found.push_back({whole + "."});
  }
  return found;
}

}  // namespace runner
