#include "runner/config/defaults_list.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "runner/config/defaults_item.h"
#include "runner/config/scalar.h"
#include "runner/suggest.h"

namespace runner {
namespace {

constexpr std::size_t kMaxParts = 1000;

std::string joined(const std::vector<std::string>& names, std::string_view separator) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : std::string(separator)) + name;
  return result;
}

std::string dotted(std::string group) {
  std::ranges::replace(group, '/', '.');
  return group;
}

std::string below(const std::string& package, const std::string& name) {
  if (package.empty() || name.empty()) return package + name;
  return package + "." + name;
}

std::string group_of(const std::string& config) {
  const std::size_t slash = config.rfind('/');
  return slash == std::string::npos ? "" : config.substr(0, slash);
}

/// What someone other than the item itself chose for a group.
struct Choice {
  std::vector<std::string> options;
  bool deleted = false;
  std::optional<std::string> deleted_option;  ///< ~group=option: only if it is this
  Location where;
  const Override* override = nullptr;  ///< null: an override item of a file
  bool used = false;
};

std::vector<std::string> options_of(const Value& value) {
  if (value.is_null()) return {};
  if (!value.list()) return {scalar_text(value)};
  std::vector<std::string> options;
  for (const Value& item : *value.list()) options.push_back(scalar_text(item));
  return options;
}

class Tree {
 public:
  Tree(ConfigFiles& files, const ConfigDocument& primary, std::span<const Override> overrides)
      : files_(files), primary_(primary) {
    for (const Override& override : overrides) {
      const bool is_appended = override.kind == OverrideKind::kAdd;
      if (is_appended) append(override);
      else choose(override);
    }
  }

  Result<std::vector<ConfigPart>> build() {
    std::string package;
    if (primary_.package && !read_header(primary_, package)) return errors_;
    std::vector<ConfigPart> parts = visit(primary_, "", package);
    if (append_unused()) {
      for (auto& [group, choice] : choices_) choice.used = false;
      std::erase_if(choices_, [](const auto& entry) { return !entry.second.override; });
      chosen_.clear();
      errors_.clear();
      visited_ = 0;
      parts = visit(primary_, "", package);
    }
    report_unused();
    if (!errors_.empty()) return errors_;
    std::ranges::reverse(parts);
    return parts;
  }

 private:
  void error(ErrorCode code, const Location& where, std::string message, std::string help,
             std::vector<Note> notes = {}) {
    errors_.push_back({code, where, "", std::move(message), std::move(help), std::move(notes)});
  }

  void append(const Override& override) {
    DefaultsItem item{DefaultsItem::Kind::kGroup, override.key, override.key, options_of(*override.value)};
    item.where = override.value->where;
    item.from_command_line = true;
    appended_.push_back(std::move(item));
  }

  void choose(const Override& override) {
    Choice choice;
    choice.override = &override;
    choice.where = override.value ? override.value->where : override.key_where;
    choice.deleted = override.kind == OverrideKind::kDelete;
    if (choice.deleted && override.value) choice.deleted_option = scalar_text(*override.value);
    if (override.value) choice.options = options_of(*override.value);
    choices_[override.key] = std::move(choice);
  }

  /// ++group=option where no defaults list has the group: true when there was one.
  bool append_unused() {
    bool any = false;
    for (auto choice = choices_.begin(); choice != choices_.end();) {
      const Override* override = choice->second.override;
      if (!choice->second.used && override && override->kind == OverrideKind::kForceAdd) {
        append(*override);
        choice = choices_.erase(choice);
        any = true;
      } else {
        ++choice;
      }
    }
    return any;
  }

  /// The parts of a config and all below it, last first: an override item counts for what stands before it, so the
  /// list is walked from its end.
  std::vector<ConfigPart> visit(const ConfigDocument& document, const std::string& group, const std::string& package) {
    if (const auto cycle = std::ranges::find(open_, &document); cycle != open_.end()) {
      std::string chain;
      for (auto step = cycle; step != open_.end(); ++step) chain += (*step)->file.string() + " -> ";
      error(ErrorCode::kDefaultsCycle, item_where_,
            "the defaults lists include each other: " + chain + document.file.string(), "remove one of the includes");
      return {};
    }
    open_.push_back(&document);
    std::vector<DefaultsItem> items = read_defaults(document, group, errors_);
    if (&document == &primary_) items.insert(items.end(), appended_.begin(), appended_.end());
    std::vector<ConfigPart> parts;
    for (auto item = items.rbegin(); item != items.rend() && ++visited_ <= kMaxParts; ++item) {
      switch (item->kind) {
        case DefaultsItem::Kind::kSelf:
          parts.push_back({&document, package});
          break;
        case DefaultsItem::Kind::kConfig:
          add_config(*item, item->name, package, parts);
          break;
        case DefaultsItem::Kind::kGroup:
          add_group(*item, package, parts);
          break;
        case DefaultsItem::Kind::kOverride:
          register_override(*item);
          break;
      }
    }
    if (visited_ == kMaxParts + 1)
      error(ErrorCode::kBadDefaults, document.contents.where, "the defaults lists have more than 1000 items", "");
    open_.pop_back();
    return parts;
  }

  void register_override(const DefaultsItem& item) {
    Choice choice;
    choice.options = item.options;
    choice.where = item.where;
    choices_.try_emplace(item.name, std::move(choice));
  }

  void add_config(const DefaultsItem& item, const std::string& name, const std::string& parent_package,
                  std::vector<ConfigPart>& parts) {
    const auto file = files_.find(name);
    if (!file) {
      if (!item.optional) missing(item, name);
      return;
    }
    const ConfigDocument* document = files_.read(*file, errors_);
    if (!document) return;
    std::string package = below(parent_package, dotted(item.package));
    if (document->package) {
      if (!read_header(*document, package)) return;
    }
    const Location outer = std::exchange(item_where_, item.where);
    const std::vector<ConfigPart> inner = visit(*document, group_of(name), package);
    item_where_ = outer;
    parts.insert(parts.end(), inner.begin(), inner.end());
  }

  bool read_header(const ConfigDocument& document, std::string& package) {
    const std::string& header = *document.package;
    if (header == "_here_" || header == "_group_" || header == "_name_") {
      error(ErrorCode::kNotBuiltYet, {document.contents.where.source, 1, 1},
            "the package '" + header + "' is not part of this version", "write _global_ or the package itself");
      return false;
    }
    package = header.starts_with("_global_") ? header.substr(std::min(header.size(), std::size_t{9})) : header;
    return true;
  }

  void missing(const DefaultsItem& item, const std::string& name) {
    const std::string group = group_of(name);
    const std::string option = group.empty() ? name : name.substr(group.size() + 1);
    const std::vector<std::string> options = files_.options(group);
    const std::string near_name = did_you_mean(option, options);
    if (item.kind == DefaultsItem::Kind::kConfig) {
      return error(ErrorCode::kBadDefaults, item.where, "there is no config '" + name + "'", near_name);
    }
    if (options.empty()) {
      return error(ErrorCode::kUnknownGroup, item.where, "there is no config group '" + group + "'", "");
    }
    error(ErrorCode::kUnknownGroupOption, item.where, "the group '" + group + "' has no option '" + option + "'",
          (near_name.empty() ? "" : near_name + " ") + "options: " + joined(options, ", "));
  }

  void add_group(DefaultsItem item, const std::string& parent_package, std::vector<ConfigPart>& parts) {
    const std::string package = below(parent_package, dotted(item.package));
    const std::string key = package == dotted(item.name) ? item.name : item.name + "@" + package;
    if (const auto choice = choices_.find(key); choice != choices_.end()) {
      Choice& chosen = choice->second;
      const bool matches = !chosen.deleted_option || item.options == std::vector{*chosen.deleted_option};
      if (chosen.deleted && matches) {
        chosen.used = true;
        return;
      }
      if (!chosen.deleted) {
        chosen.used = true;
        item.options = chosen.options;
        item.mandatory = false;
        item.where = chosen.where;
        item.optional = item.optional && !chosen.override;
      }
    }
    if (const auto [first, is_new] = chosen_.try_emplace(key, item); !is_new)
      return chosen_twice(key, item, first->second);
    if (item.mandatory) {
      return error(ErrorCode::kMandatoryValue, item.where, "an option of '" + key + "' must be chosen",
                   "give it: " + key + "=OPTION; options: " + joined(files_.options(item.name), ", "));
    }
    for (auto option = item.options.rbegin(); option != item.options.rend(); ++option) {
      const bool leads_out = option->find("..") != std::string::npos || option->find('\\') != std::string::npos ||
                             option->starts_with('/') || option->empty();
      if (leads_out) {
        error(ErrorCode::kUnknownGroupOption, item.where, "'" + *option + "' cannot name an option",
              "options: " + joined(files_.options(item.name), ", "));
      } else {
        add_config(item, item.name + "/" + *option, parent_package, parts);
      }
    }
  }

  void chosen_twice(const std::string& key, const DefaultsItem& item, const DefaultsItem& other) {
    const DefaultsItem& late = other.from_command_line ? other : item;
    const DefaultsItem& early = other.from_command_line ? item : other;
    if (late.from_command_line) {
      error(ErrorCode::kOverrideExists, late.where, "the defaults list chooses '" + key + "' already",
            "without + it is changed: " + key + "=" + joined(late.options, ","), {{early.where, "chosen here"}});
    } else {
      error(ErrorCode::kBadDefaults, other.where, "'" + key + "' stands twice in the defaults lists",
            "to choose another option write '- override " + key + ": OPTION'", {{item.where, "first chosen here"}});
    }
  }

  void report_unused() {
    std::vector<std::string> groups;
    for (const auto& [key, item] : chosen_) groups.push_back(key);
    for (const auto& [key, choice] : choices_) {
      if (choice.used) continue;
      const std::string value = joined(choice.options, ",");
      if (choice.deleted) {
        error(
            ErrorCode::kCannotDelete, choice.override->key_where,
            "cannot delete '" + choice.override->where.source->contents.substr(1) + "': no match in the defaults list",
            did_you_mean(key, groups));
      } else if (choice.override) {
        error(ErrorCode::kUnknownGroup, choice.override->key_where,
              "the defaults list has no '" + key + "' to override",
              "to append to the defaults list use +" + key + "=" + value);
      } else {
        error(ErrorCode::kBadDefaults, choice.where, "no earlier item of the defaults lists chooses '" + key + "'",
              did_you_mean(key, groups));
      }
    }
  }

  ConfigFiles& files_;
  const ConfigDocument& primary_;
  std::map<std::string, Choice> choices_;       // by group, as overrides name it
  std::map<std::string, DefaultsItem> chosen_;  // what each group came to
  std::vector<DefaultsItem> appended_;          // to the primary's list
  std::vector<const ConfigDocument*> open_;     // being visited, outermost first
  Location item_where_;                         // of the item that led here
  std::size_t visited_ = 0;
  Diagnostics errors_;
};

}  // namespace

Result<std::vector<ConfigPart>> build_defaults(ConfigFiles& files, const ConfigDocument& primary,
                                               std::span<const Override> choices) {
  return Tree(files, primary, choices).build();
}

}  // namespace runner
