#include "runner/parent/config/alias.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runner/parent/config/number_range.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/scalar.h"
#include "runner/parent/config/secret.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

/// In an alias's mapping of values, the entry for all values that the mapping does not list; its
/// value is the target key.
constexpr std::string_view kAnyOther = "any";
/// In an alias's mapping of values, the entry for a list: the key that receives the list, followed
/// by further overrides, as in [vars.models, model=several].
constexpr std::string_view kList = "list";

Diagnostic bad_alias(const Value& value, const std::string& name, std::string message,
                     std::string help) {
  return {ErrorCode::kBadAlias, value.where, pointer_to("/aliases", name), std::move(message),
          std::move(help)};
}

/// Returns the strings in `value`, a string or a list of strings; empty if it is neither.
std::vector<std::string> texts(const Value& value) {
  if (value.text()) return {*value.text()};
  std::vector<std::string> result;
  if (const auto* list = value.list()) {
    for (const Value& item : *list) {
      if (!item.text()) return {};
      result.push_back(*item.text());
    }
  }
  return result;
}

bool reads_as_override(const std::string& text) {
  const SourceText source{"alias", text};
  return static_cast<bool>(parse_override(source));
}

void move_to(Value& value, const Location& where) {
  value.where = where;
  if (auto* list = value.list()) {
    for (Value& item : *list) move_to(item, where);
  }
  if (auto* map = value.map()) {
    for (Entry& entry : *map) {
      entry.key_where = where;
      move_to(entry.value, where);
    }
  }
}

/// Sets the location of the override to `where` and the location of its values to `value`.
void move_to(Override& override, const Location& where, const Location& value) {
  override.where = override.key_where = override.package_where = where;
  if (override.value) move_to(*override.value, value);
  if (override.edit) {
    for (Value& one : override.edit->values) move_to(one, value);
  }
  if (!override.sweep) return;
  Sweep& sweep = *override.sweep;
  sweep.where = value;
  for (Value* one : {&sweep.start, &sweep.stop, &sweep.step}) move_to(*one, value);
  for (auto* values : {&sweep.choices, &sweep.include, &sweep.exclude}) {
    for (Value& one : *values) move_to(one, value);
  }
  for (auto& row : sweep.rows) {
    for (Override& one : row) move_to(one, where, value);
  }
}

Override renamed(const Override& override, std::string key) {
  Override result = override;
  result.key = std::move(key);
  result.alias = override.key;
  return result;
}

/// Parses `texts`, the overrides listed by an alias. They get the locations of `override`, which
/// uses the alias.
Result<std::vector<Override>> written_for(const Override& override,
                                          std::span<const std::string> texts) {
  std::vector<Override> result;
  for (const std::string& text : texts) {
    const SourceText source{"alias", text};
    auto read = parse_override(source);  // already parsed once, with the alias
    if (!read) return read.errors();
    move_to(*read, override.key_where, override.value->where);
    read->where = override.where;
    read->alias = override.key;
    result.push_back(*std::move(read));
  }
  return result;
}

Result<std::vector<Override>> meant_by_list(const Override& override, const Alias& alias) {
  auto result = written_for(override, std::span(alias.of_list).subspan(1));
  if (result) result->insert(result->begin(), renamed(override, alias.of_list.front()));
  return result;
}

Result<std::vector<Override>> chosen_case(const Override& override, const Alias& alias) {
  const std::string given = override.value ? scalar_text(*override.value) : "";
  const auto found = std::ranges::find(alias.cases, given, &Alias::Case::value);
  if (found == alias.cases.end() || !override.value) {
    std::vector<std::string> values;
    std::string list;
    for (const Alias::Case& known : alias.cases) {
      values.push_back(known.value);
      list += (list.empty() ? "" : ", ") + known.value;
    }
    if (!alias.of_list.empty()) list += ", or a list";
    const std::string near_value = did_you_mean(given, values);
    return Diagnostic{ErrorCode::kBadAlias,
                      override.value ? override.value->where : override.where,
                      "",
                      "'" + alias.name + "' does not accept the value '" + given + "'",
                      near_value.empty() ? "it accepts: " + list : near_value,
                      {{alias.where, "the alias is defined here"}}};
  }
  return written_for(override, found->overrides);
}

/// True if `alias` has a case for the value of `override`.
bool is_case(const Override& override, const Alias& alias) {
  const std::string given = override.value ? scalar_text(*override.value) : "";
  return override.value &&
         std::ranges::find(alias.cases, given, &Alias::Case::value) != alias.cases.end();
}

/// Returns the overrides that `override` stands for. `override` sets `alias` to a single value.
Result<std::vector<Override>> meant(const Override& override, const Alias& alias) {
  if (!alias.of_list.empty() && override.value && override.value->list())
    return meant_by_list(override, alias);
  if (alias.targets.empty() || is_case(override, alias)) return chosen_case(override, alias);
  std::vector<Override> result;
  for (const std::string& target : alias.targets)
    result.push_back(renamed(override, target + override.key.substr(alias.name.size())));
  return result;
}

/// Returns the values of a sweep over an alias when each value stands for several overrides.
Result<std::vector<Value>> values_of(const Override& override) {
  const Sweep& sweep = *override.sweep;
  if (sweep.kind == Sweep::Kind::kSimpleChoice || sweep.kind == Sweep::Kind::kChoice)
    return sweep.choices;
  const std::string stands_for = "'" + override.key + "' sets several keys";
  if (sweep.kind != Sweep::Kind::kRange) {
    return Diagnostic{ErrorCode::kBadSweep, sweep.where, "",
                      stands_for + ", so its values must be listed",
                      "write " + override.key + "=a,b,c"};
  }
  const auto range = NumberRange::make(sweep);
  if (!range) return range.errors();
  constexpr std::uint64_t kMaxValues = 100'000;
  if (range->size() > kMaxValues) {
    return Diagnostic{ErrorCode::kBadSweep, sweep.where, "",
                      stands_for + ", so a sweep over it can have at most 100000 values",
                      "sweep over fewer values"};
  }
  std::vector<Value> values;
  for (std::uint64_t i = 0; i < range->size(); ++i) values.push_back((*range)[i]);
  return values;
}

/// Converts a sweep over an alias that does more than rename a key. The result is a sweep over
/// rows: each row contains the overrides that one of the alias's values stands for.
Result<std::vector<Override>> meant_by_each(const Override& override, const Alias& alias) {
  const auto values = values_of(override);
  if (!values) return values.errors();
  Override result = override;
  result.sweep->kind = Sweep::Kind::kZip;
  result.sweep->choices.clear();
  Override one = override;
  one.sweep.reset();
  Diagnostics errors;
  for (const Value& value : *values) {
    one.value = value;
    one.value_text = element_text(value);
    auto row = meant(one, alias);
    if (row) result.sweep->rows.push_back(*std::move(row));
    else errors.insert(errors.end(), row.errors().begin(), row.errors().end());
  }
  if (!errors.empty()) return errors;
  return std::vector<Override>{std::move(result)};
}

/// Returns the longest alias that is a dotted prefix of `key`; null if there is none.
const Alias* covering(const std::string& key, std::span<const Alias> aliases) {
  const Alias* longest = nullptr;
  for (const Alias& alias : aliases) {
    const bool covers_keys_below = alias.cases.empty();
    const bool matches =
        key == alias.name || (covers_keys_below && key.starts_with(alias.name + "."));
    if (matches && (!longest || alias.name.size() > longest->name.size())) longest = &alias;
  }
  return longest;
}

/// Returns the error for `override`, which `alias` declares to be an option of the original program
/// that has no equivalent here.
Diagnostic foreign_option(const Override& override, const Alias& alias) {
  return {
      ErrorCode::kForeignOption,
      override.key_where,
      "",
      "'" + override.key + "' is an option of the original program that this recipe does not have",
      alias.instead,
      {{alias.where, "the recipe declares this here"}}};
}

/// Returns the overrides that `override` stands for. `override` must not be a sweep with zip().
Result<std::vector<Override>> meant_by(const Override& override, std::span<const Alias> aliases) {
  const Alias* alias = covering(override.key, aliases);
  if (!alias) return std::vector<Override>{override};
  if (!alias->instead.empty()) return foreign_option(override, *alias);
  const bool is_other_name = alias->targets.size() == 1 && alias->cases.empty();
  if (override.sweep && !is_other_name) return meant_by_each(override, *alias);
  auto result = meant(override, *alias);
  // An override in the alias may itself be an option of the original program: use_wandb: {"false":
  // [], "true": [wandb=true]}.
  for (const Override& one : result ? *result : std::vector<Override>()) {
    const Alias* other = alias->cases.empty() ? nullptr : covering(one.key, aliases);
    if (other && !other->instead.empty()) return foreign_option(one, *other);
  }
  return result;
}

/// Applies aliases to the rows of a zip().
Result<std::vector<Override>> meant_by_rows(Override override, std::span<const Alias> aliases) {
  Diagnostics errors;
  for (std::vector<Override>& row : override.sweep->rows) {
    std::vector<Override> all;
    for (const Override& one : row) {
      auto some = apply_alias(one, aliases);
      if (some) all.insert(all.end(), some->begin(), some->end());
      else errors.insert(errors.end(), some.errors().begin(), some.errors().end());
    }
    row = std::move(all);
  }
  if (!errors.empty()) return errors;
  return std::vector<Override>{std::move(override)};
}

}  // namespace

void add_common_aliases(std::vector<Alias>& result) {
  constexpr std::array<std::pair<const char*, const char*>, 3> kCommon = {
      {{"epochs", "train.epochs"},
       {"lr", "train.optimizer.learning_rate"},
       {"batch_size", "train.batch_size"}}};
  for (const auto& [name, target] : kCommon) {
    if (std::ranges::find(result, name, &Alias::name) == result.end())
      result.push_back({name, {}, {target}});
  }
}

void read_aliases(const Value& aliases, std::vector<Alias>& result, Diagnostics& errors) {
  if (aliases.is_null()) return;
  if (!aliases.map()) {
    errors.push_back({ErrorCode::kBadAlias, aliases.where, "/aliases", "aliases must be a mapping",
                      "write name: key, for example lr: train.optimizer.learning_rate"});
    return;
  }
  for (const auto& [name, name_where, value, type] : *aliases.map()) {
    if (std::ranges::find(result, name, &Alias::name) != result.end()) continue;
    Alias alias{name, name_where, texts(value)};
    bool good = true;
    for (const std::string& target : alias.targets)
      good = good && reads_as_override("++" + target + "=0");
    if (value.map() && value.map()->size() == 1 && value.find("instead") &&
        value.find("instead")->text()) {
      alias.instead = *value.find("instead")->text();
    } else if (const auto* cases = value.map()) {
      for (const Entry& entry : *cases) {
        if (entry.key == kAnyOther && entry.value.text()) {
          alias.targets = {*entry.value.text()};
          good = good && reads_as_override("++" + alias.targets[0] + "=0");
          continue;
        }
        if (entry.key == kList && entry.value.list()) {
          alias.of_list = texts(entry.value);
          good = good && !alias.of_list.empty() &&
                 reads_as_override("++" + alias.of_list[0] + "=0") &&
                 std::all_of(alias.of_list.begin() + 1, alias.of_list.end(), reads_as_override);
          continue;
        }
        alias.cases.push_back({entry.key, texts(entry.value)});
        good = good && std::ranges::all_of(alias.cases.back().overrides, reads_as_override);
        good = good && (!alias.cases.back().overrides.empty() ||
                        (entry.value.list() && entry.value.list()->empty()));
      }
    }
    if (!good || (alias.targets.empty() && alias.cases.empty() && alias.instead.empty())) {
      errors.push_back(bad_alias(value, name, "the alias '" + name + "' is not valid",
                                 "write a key, a list of keys, or {\"value\": [key=value, ...]}"));
      continue;
    }
    result.push_back(std::move(alias));
  }
}

Result<std::vector<Override>> apply_alias(const Override& override,
                                          std::span<const Alias> aliases) {
  const bool has_rows = override.sweep && override.sweep->kind == Sweep::Kind::kZip;
  auto result = has_rows ? meant_by_rows(override, aliases) : meant_by(override, aliases);
  if (!result) return result;
  for (Override& one : *result) hide_secrets(one);
  return result;
}

}  // namespace runner
