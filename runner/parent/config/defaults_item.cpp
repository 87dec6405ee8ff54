#include "runner/parent/config/defaults_item.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

/// Thrown for an invalid item; the remaining items are still read.
struct BadItem {
  Diagnostic diagnostic;
};

[[noreturn]] void bad_item(const Location& where, std::string message, std::string help,
                           ErrorCode code = ErrorCode::kBadDefaults) {
  throw BadItem{{code, where, "/defaults", std::move(message), std::move(help)}};
}

/// Rejects names that could lead out of the config folders.
void check_name(const std::string& name, const Location& where) {
  std::istringstream parts(name);
  bool good = !name.empty() && name.find_first_of("\\\n\t:") == name.npos && !name.ends_with('/');
  for (std::string part; good && std::getline(parts, part, '/');)
    good = !part.empty() && part != "." && part != "..";
  if (!good)
    bad_item(where, "'" + name + "' is not a valid config name",
             "write a name as a/b, without '..' or a file extension");
  if (name.ends_with(".yaml") || name.ends_with(".yml")) {
    bad_item(where, "'" + name + "' has an extension",
             "write '" + name.substr(0, name.rfind('.')) + "'");
  }
}

/// Removes "@package" from the end of `written` and stores it in `item`.
void take_package(std::string& written, DefaultsItem& item, const Location& where) {
  const std::size_t brace = written.rfind('}');  // the @ in ${db@backup} is part of the
                                                 // interpolation
  const std::size_t at = written.find('@', brace == written.npos ? 0 : brace);
  if (at == written.npos) return;
  item.package = written.substr(at + 1);
  item.has_package = true;
  written.erase(at);
  const auto is_bad = [](unsigned char c) {
    return !(std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '$');
  };
  if (std::ranges::any_of(item.package, is_bad)) {
    bad_item(where, "'" + item.package + "' is not a package",
             "write a package as a.b.c, _here_ or _global_");
  }
}

/// Returns the name relative to the root. A leading slash makes it absolute; other names are
/// relative to `group`, the group of the config that contains the list.
std::string absolute(const std::string& name, const std::string& group) {
  if (name.starts_with('/')) return name.substr(1);
  return group.empty() ? name : group + "/" + name;
}

std::string without_slash(const std::string& name) {
  return name.starts_with('/') ? name.substr(1) : name;
}

std::string dotted(std::string group) {
  std::ranges::replace(group, '/', '.');
  return group;
}

/// Removes the keywords "optional" and "override" from the start of `key` and stores them in
/// `item`.
std::string take_keywords(std::string key, DefaultsItem& item, const Location& where) {
  for (std::size_t blank; (blank = key.find(' ')) != key.npos;) {
    const std::string word = key.substr(0, blank);
    if (word == "optional") item.optional = true;
    else if (word == "override") item.kind = DefaultsItem::Kind::kOverride;
    else {
      const std::vector<std::string> known = {"optional", "override"};
      bad_item(where, "unsupported keyword '" + word + "' in a defaults list",
               did_you_mean(word, known));
    }
    key = key.substr(key.find_first_not_of(' ', blank));
  }
  return key;
}

DefaultsItem config_item(std::string written, const std::string& group, const Location& where) {
  DefaultsItem item{DefaultsItem::Kind::kConfig};
  item.where = where;
  written = take_keywords(std::move(written), item, where);
  if (item.kind == DefaultsItem::Kind::kOverride) {
    bad_item(where, "'override' needs a group and its option", "write '- override group: option'");
  }
  take_package(written, item, where);
  const std::string relative = without_slash(written);
  check_name(relative, where);
  item.name = absolute(written, group);
  const std::size_t slash = relative.rfind('/');
  if (!item.has_package && slash != relative.npos) item.package = dotted(relative.substr(0, slash));
  return item;
}

DefaultsItem group_item(const Entry& entry, const std::string& group) {
  DefaultsItem item{DefaultsItem::Kind::kGroup};
  std::string written = take_keywords(entry.key, item, entry.key_where);
  take_package(written, item, entry.key_where);
  check_name(without_slash(written), entry.key_where);
  item.where = entry.value.where;
  const auto add_option = [&](const Value& value) {
    if (!value.text())
      bad_item(value.where, "an option must be a name, not " + describe(value),
               "if it is a name, write it in quotes");
    check_name(*value.text(), value.where);
    item.options.push_back(*value.text());
  };
  if (is_mandatory(entry.value)) item.mandatory = true;
  else if (const auto* list = entry.value.list()) {
    item.is_list = true;
    std::ranges::for_each(*list, add_option);
  } else if (!entry.value.is_null()) add_option(entry.value);
  // "foo: bar/baz" is the option baz of foo/bar.
  if (!item.is_list && item.options.size() == 1 && item.options[0].find('/') != std::string::npos &&
      !item.has_interpolation()) {
    const std::size_t slash = item.options[0].rfind('/');
    written += "/" + item.options[0].substr(0, slash);
    item.options[0].erase(0, slash + 1);
  }
  item.name = absolute(written, group);
  if (!item.has_package) item.package = dotted(without_slash(written));
  if (item.is_list && item.has_interpolation())
    bad_item(item.where, "a list of options cannot contain interpolations",
             "list the options, or choose just one");
  return item;
}

DefaultsItem read_item(const Value& value, const std::string& group) {
  if (value.text() && *value.text() == "_self_") {
    DefaultsItem item;
    item.where = value.where;
    return item;
  }
  if (value.text()) return config_item(*value.text(), group, value.where);
  if (!value.map())
    bad_item(value.where,
             "an item of a defaults list must be a name or group: option, not " + describe(value),
             "");
  if (value.map()->size() != 1)
    bad_item(value.where, "an item of a defaults list chooses from one group",
             "write one '- group: option' for each");
  return group_item(value.map()->front(), group);
}

}  // namespace

bool DefaultsItem::has_interpolation() const {
  const auto holds = [](const std::string& text) { return text.find("${") != text.npos; };
  return holds(name) || std::ranges::any_of(options, holds);
}

std::string choice_key(const std::string& group, const std::string& package) {
  if (package == dotted(group)) return group;
  return group + "@" + (package.empty() ? "_global_" : package);
}

std::string package_below(const std::string& parent, const DefaultsItem& item) {
  std::string package = item.package == "_here_" ? "" : item.package;
  if (package.empty() || parent.empty()) package = parent + package;
  else package = parent + "." + package;
  const std::size_t global = package.rfind("_global_");
  if (global == package.npos) return package;
  package.erase(0, global + std::string_view("_global_").size());
  return package.substr(std::min(package.find_first_not_of('.'), package.size()));
}

std::vector<DefaultsItem> read_defaults(const ConfigDocument& document, const std::string& group,
                                        Diagnostics& errors) {
  std::vector<DefaultsItem> items;
  DefaultsItem self;
  self.where = document.contents.where;
  const Value* defaults = document.contents.find("defaults");
  if (!defaults || defaults->is_null()) return {self};
  if (!defaults->list()) {
    errors.push_back({ErrorCode::kBadDefaults, defaults->where, "/defaults",
                      "defaults must be a list, not " + describe(*defaults),
                      "write each item as '- group: option' on its own line"});
    return {self};
  }
  const DefaultsItem* own = nullptr;
  bool override_seen = false;
  items.reserve(defaults->list()->size() + 1);  // `own` points to an item, so the items must not
                                                // move
  for (const Value& value : *defaults->list()) {
    try {
      DefaultsItem item = read_item(value, group);
      const bool is_override = item.kind == DefaultsItem::Kind::kOverride;
      if (override_seen && !is_override) {
        bad_item(item.where, "an ordinary item follows an override",
                 "move the overrides to the end of the defaults list");
      }
      override_seen = override_seen || is_override;
      if (own && item.kind == DefaultsItem::Kind::kSelf) {
        bad_item(item.where, "_self_ appears twice in the defaults list", "remove one of the two");
      }
      items.push_back(std::move(item));
      if (items.back().kind == DefaultsItem::Kind::kSelf) own = &items.back();
    } catch (const BadItem& bad) {
      errors.push_back(bad.diagnostic);
    }
  }
  if (!own) items.push_back(self);
  return items;
}

bool is_mandatory(const Value& value) { return value.says("???"); }

bool is_interpolation(const Value& value) {
  return value.reveal() && value.reveal()->find("${") != std::string::npos;
}

Diagnostic container_clash(const Value& base, const Value& over, const std::string& pointer) {
  return {ErrorCode::kContainerClash,
          over.where,
          pointer,
          "a " + std::string(type_name(over)) + " cannot replace a " + std::string(type_name(base)),
          "delete the old value first, or write a " + std::string(type_name(base)),
          {{base.where, "the " + std::string(type_name(base)) + " is written here"}}};
}

void merge(Value& base, Value over, const std::string& pointer, Diagnostics& errors) {
  if ((base.list() && over.map()) || (base.map() && over.list())) {
    errors.push_back(container_clash(base, over, pointer));
    return;
  }
  if (is_interpolation(base) && over.map()) {
    errors.push_back({ErrorCode::kContainerClash,
                      over.where,
                      pointer,
                      "a mapping cannot be merged into an interpolation",
                      "replace the interpolation with the mapping itself",
                      {{base.where, "the interpolation"}}});
    return;
  }
  if (!base.map() || !over.map()) {
    if (!is_mandatory(over) || base.is_null()) base = std::move(over);
    return;
  }
  if (base.map()->empty()) {
    base = std::move(over);
    return;
  }
  // With a new kind, the mapping is a different object, so errors should point to the place where
  // the new kind is written.
  const Value *kind = base.find("kind"), *new_kind = over.find("kind");
  if (new_kind && (!kind || !same_data(*kind, *new_kind))) base.where = over.where;
  for (Entry& entry : *over.map()) {
    if (Value* existing = base.find(entry.key)) {
      merge(*existing, std::move(entry.value), pointer_to(pointer, entry.key), errors);
    } else {
      base.map()->push_back(std::move(entry));
    }
  }
}

}  // namespace runner
