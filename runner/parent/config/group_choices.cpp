#include "runner/parent/config/group_choices.h"

#include <algorithm>
#include <utility>

#include "runner/parent/config/scalar.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

std::string key_of(const Override& override) {
  if (!override.package) return override.key;
  return override.key + "@" + (override.package->empty() ? "_global_" : *override.package);
}

/// Returns advice for an `override` item of a file if no defaults list has the group `key`: to use
/// the group with that name at the root, or one with a similar name.
std::string how_to_override(const std::string& key, const std::vector<std::string>& groups,
                            const std::string& value) {
  const std::string group = key.substr(0, key.find('@'));
  for (const std::string& other : groups) {
    if (group.ends_with("/" + other))
      return "for the group at the root, write '- override /" + other + ": " + value + "'";
  }
  return did_you_mean(key, groups);
}

/// Returns advice for an override if no defaults list has the group `key`: the same group with
/// another package, a group with a similar name, or how to add the group.
std::string how_to_choose(const std::string& key, const std::vector<std::string>& groups,
                          const std::string& value) {
  std::vector<std::string> elsewhere;
  for (const std::string& group : groups) {
    if (group.substr(0, group.find('@')) == key.substr(0, key.find('@')))
      elsewhere.push_back(group);
  }
  std::string help = elsewhere.size() > 1 ? "did you mean one of " + join(elsewhere, ", ") + "?"
                     : elsewhere.empty()  ? did_you_mean(key, groups)
                                          : "did you mean '" + elsewhere.front() + "'?";
  return (help.empty() ? "" : help + " ") + "to append to the defaults list use +" + key + "=" +
         value;
}

}  // namespace

std::vector<std::string> chosen_options(const Value& value) {
  if (value.is_null()) return {};
  if (!value.list()) return {scalar_text(value)};
  std::vector<std::string> options;
  for (const Value& item : *value.list()) options.push_back(scalar_text(item));
  return options;
}

void GroupChoices::choose(const Override& override) {
  Choice choice;
  choice.override = &override;
  choice.where = override.value ? override.value->where : override.key_where;
  choice.deleted = override.kind == OverrideKind::kDelete;
  if (choice.deleted && override.value) choice.deleted_option = scalar_text(*override.value);
  if (override.value) choice.options = chosen_options(*override.value);
  choice.is_list = override.value && override.value->list();
  choices_[key_of(override)] = std::move(choice);
}

void GroupChoices::choose(const DefaultsItem& item, const std::string& key) {
  Choice choice;
  choice.options = item.options;
  choice.is_list = item.is_list;
  choice.where = item.where;
  choices_.try_emplace(key, std::move(choice));
}

bool GroupChoices::apply(DefaultsItem& item, const std::string& key) {
  const auto found = choices_.find(key);
  if (found == choices_.end()) return true;
  Choice& choice = found->second;
  if (choice.deleted) {
    if (item.from_command_line ||
        (choice.deleted_option && item.options != std::vector{*choice.deleted_option}))
      return true;
    choice.used = true;
    return false;
  }
  choice.used = true;
  item.options = choice.options;
  item.is_list = choice.is_list;
  item.mandatory = false;
  item.where = choice.where;
  item.optional = item.optional && !choice.override;
  return true;
}

bool GroupChoices::deletes(const std::string& name) {
  const auto found = choices_.find(name);
  if (found == choices_.end() || !found->second.deleted) return false;
  found->second.used = true;
  return true;
}

std::vector<const Override*> GroupChoices::take_additions() {
  std::vector<const Override*> additions;
  std::erase_if(choices_, [&](const auto& entry) {
    const Choice& choice = entry.second;
    const bool is_addition =
        !choice.used && choice.override && choice.override->kind == OverrideKind::kForceAdd;
    if (is_addition) additions.push_back(choice.override);
    return is_addition;
  });
  return additions;
}

void GroupChoices::restart() {
  for (auto& [group, choice] : choices_) choice.used = false;
  std::erase_if(choices_, [](const auto& entry) { return !entry.second.override; });
}

std::vector<Override> GroupChoices::take_about_values(const std::vector<ConfigPart>& parts) {
  std::vector<Override> result;
  std::erase_if(choices_, [&](const auto& entry) {
    const Choice& choice = entry.second;
    const bool is_key = std::ranges::any_of(parts, [&](const ConfigPart& part) {
      return part.package.empty() && part.document->contents.find(entry.first);
    });
    if (choice.used || !choice.override || !choice.options.empty() || !is_key) return false;
    result.push_back(*choice.override);
    return true;
  });
  return result;
}

void GroupChoices::report_unused(const std::map<std::string, DefaultsItem>& chosen_items,
                                 Diagnostics& errors) const {
  const auto error = [&](ErrorCode code, const Location& where, std::string message,
                         std::string help) {
    errors.push_back({code, where, "", std::move(message), std::move(help)});
  };
  std::vector<std::string> groups;
  for (const auto& [key, item] : chosen_items) groups.push_back(key);
  for (const auto& [key, choice] : choices_) {
    if (choice.used) continue;
    const std::string value = join(choice.options, ",");
    if (choice.deleted) {
      const auto chosen = chosen_items.find(key);
      error(ErrorCode::kCannotDelete, choice.override->key_where,
            "cannot delete '" + choice.override->where.source->contents.substr(1) +
                "': no match in the defaults list",
            chosen == chosen_items.end()
                ? did_you_mean(key, groups)
                : "'" + key + "' is '" + join(chosen->second.options, ",") +
                      "': to delete it write ~" + key);
    } else if (choice.override) {
      error(ErrorCode::kUnknownGroup, choice.override->key_where,
            "the defaults list has no '" + key + "' to override",
            how_to_choose(key, groups, value));
    } else {
      error(ErrorCode::kBadDefaults, choice.where,
            "no earlier item of the defaults lists chooses '" + key + "'",
            how_to_override(key, groups, value));
    }
  }
}

}  // namespace runner
