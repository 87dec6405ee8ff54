#include "runner/config/defaults_list.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "runner/config/defaults_item.h"
#include "runner/config/scalar.h"
#include "runner/text/join.h"
#include "runner/text/suggest.h"

namespace runner {
namespace {

constexpr std::size_t kMaxParts = 1000;
constexpr std::ptrdiff_t kDeepestPackage = 64;

std::string group_of(const std::string& config) {
  const std::size_t slash = config.rfind('/');
  return slash == std::string::npos ? "" : config.substr(0, slash);
}

/// What someone other than the item itself chose for a group.
struct Choice {
  std::vector<std::string> options;
  bool is_list = false;
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

/// A config on its way into the list, or an item that waits for the choices it is made of.
struct ListNode {
  std::string text;
  std::optional<ConfigPart> part;       // of _self_
  std::optional<DefaultsItem> waiting;  // holds ${group}
  std::string package, parent, group;   // of the list that `waiting` stands in
  std::vector<std::unique_ptr<ListNode>> children;
};

class Tree {
 public:
  Tree(ConfigFiles& files, const ConfigDocument& primary, std::string name, std::span<const Override> overrides)
      : files_(files), primary_(primary), name_(std::move(name)) {
    for (const Override& override : overrides) {
      if (override.kind == OverrideKind::kAdd) append(override);
      else choose(override);
    }
  }

  Result<DefaultsList> build() {
    ListNode root;
    grow(root);
    if (append_unused()) {
      for (auto& [group, choice] : choices_) choice.used = false;
      std::erase_if(choices_, [](const auto& entry) { return !entry.second.override; });
      chosen_.clear();
      waiting_.clear();
      errors_.clear();
      visited_ = 0;
      root = ListNode();
      grow(root);
    }
    DefaultsList list;
    list.tree = flattened(root, list.parts);
    list.about_values = take_about_values(list.parts);
    report_unused();
    if (!errors_.empty()) return errors_;
    for (const auto& [key, item] : chosen_) {
      if (item.is_list) continue;
      list.choices.push_back({key, item.options.empty() ? std::nullopt : std::optional(item.options.front())});
    }
    return list;
  }

 private:
  void error(ErrorCode code, const Location& where, std::string message, std::string help,
             std::vector<Note> notes = {}) {
    errors_.push_back({code, where, "", std::move(message), std::move(help), std::move(notes)});
  }

  static std::string key_of(const Override& override) {
    if (!override.package) return override.key;
    return override.key + "@" + (override.package->empty() ? "_global_" : *override.package);
  }

  void append(const Override& override) {
    DefaultsItem item{DefaultsItem::Kind::kGroup, override.key, override.key};
    std::ranges::replace(item.package, '/', '.');
    if (override.package) item.package = *override.package;
    item.has_package = override.package.has_value();
    item.options = options_of(*override.value);
    item.is_list = override.value->list() != nullptr;
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
    choice.is_list = override.value && override.value->list();
    choices_[key_of(override)] = std::move(choice);
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

  void grow(ListNode& root) {
    std::string package = primary_.package ? header_package(*primary_.package) : group_of(name_);
    std::ranges::replace(package, '/', '.');
    root.text = name_;
    visit(root, primary_, name_, package, "");
    expand_waiting();
  }

  /// Everything below a config. An override item counts for what comes before it, so the list is walked from its end.
  void visit(ListNode& node, const ConfigDocument& document, const std::string& name, const std::string& package,
             const std::string& parent) {
    if (const auto cycle = std::ranges::find(open_, &document); cycle != open_.end()) {
      std::string chain;
      for (auto step = cycle; step != open_.end(); ++step) chain += (*step)->file.string() + " -> ";
      return error(ErrorCode::kDefaultsCycle, item_where_,
                   "the defaults lists include each other: " + chain + document.file.string(),
                   "remove one of the includes");
    }
    open_.push_back(&document);
    const std::string group = group_of(name);
    const bool is_primary = &document == &primary_ && open_.size() == 1;
    std::vector<DefaultsItem> items = read_defaults(document, group, errors_);
    if (is_primary) items.insert(items.end(), appended_.begin(), appended_.end());
    for (auto item = items.rbegin(); item != items.rend() && ++visited_ <= kMaxParts; ++item) {
      if (item->kind == DefaultsItem::Kind::kOverride) {
        register_override(*item, package);
        continue;
      }
      auto child = std::make_unique<ListNode>();
      if (item->kind == DefaultsItem::Kind::kSelf) {
        child->text = "_self_";
        child->part = ConfigPart{name, &document, package, parent};
      } else {
        add(*child, *item, item->from_command_line ? "" : package, name);
      }
      if (child->part || child->waiting || !child->text.empty()) node.children.push_back(std::move(child));
    }
    std::ranges::reverse(node.children);
    if (visited_ == kMaxParts + 1)
      error(ErrorCode::kBadDefaults, document.contents.where, "the defaults lists have more than 1000 items", "");
    open_.pop_back();
  }

  void register_override(const DefaultsItem& item, const std::string& parent_package) {
    if (item.name.starts_with("hydra/")) return;  // Hydra's own groups: its log, its launcher
    if (in_waiting_) {
      return error(ErrorCode::kBadDefaults, item.where, "a config chosen by an interpolation cannot hold overrides",
                   "move the override to the config that chooses");
    }
    Choice choice;
    choice.options = item.options;
    choice.is_list = item.is_list;
    choice.where = item.where;
    choices_.try_emplace(choice_key(item.name, package_below(parent_package, item)), std::move(choice));
  }

  /// Fills `node` with what an ordinary item leads to; leaves it empty when that is nothing.
  void add(ListNode& node, DefaultsItem item, const std::string& parent_package, const std::string& parent) {
    if (item.kind == DefaultsItem::Kind::kGroup && !take_choice(item, parent_package)) return;
    if (item.has_interpolation()) {
      node.text = item.name;
      node.waiting = std::move(item);
      node.package = parent_package;
      node.parent = parent;
      waiting_.push_back(&node);
    } else if (item.kind == DefaultsItem::Kind::kConfig) {
      const auto deleted = choices_.find(item.name);
      if (deleted != choices_.end() && deleted->second.deleted) {
        deleted->second.used = true;
      } else {
        add_config(node, item, item.name, parent_package, parent);
      }
    } else {
      add_group(node, item, parent_package, parent);
    }
  }

  void add_config(ListNode& node, const DefaultsItem& item, const std::string& name, const std::string& parent_package,
                  const std::string& parent) {
    const auto file = files_.find(name);
    if (!file) {
      if (!item.optional) missing(item, name);
      return;
    }
    const ConfigDocument* document = files_.read(*file, errors_);
    if (!document) return;
    std::string package = package_below(parent_package, item);
    if (document->package && !item.has_package) package = header_package(*document->package);
    if (std::ranges::count(package, '.') >= kDeepestPackage) {
      return error(ErrorCode::kNestingTooDeep, item.where, "packages are more than 64 levels deep", "");
    }
    if (document->contents.list() && package.empty()) {
      return error(ErrorCode::kBadDefaults, document->contents.where, "a list cannot be at the root of a recipe",
                   "give it a package: '# @package a.b', or group@a.b in the defaults list");
    }
    node.text = name;
    const Location outer = std::exchange(item_where_, item.where);
    visit(node, *document, name, package, parent);
    item_where_ = outer;
  }

  /// A header is absolute, with or without _global_.
  static std::string header_package(const std::string& header) {
    return package_below("", {.package = header.starts_with("_here_") ? "" : header});
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
          (near_name.empty() ? "" : near_name + " ") + "options: " + join(options, ", "));
  }

  /// Replaces the item's option by what someone else chose for its group. False when it was deleted.
  bool take_choice(DefaultsItem& item, const std::string& parent_package) {
    const auto found = choices_.find(choice_key(item.name, package_below(parent_package, item)));
    if (found == choices_.end()) return true;
    Choice& choice = found->second;
    if (choice.deleted) {
      if (item.from_command_line || (choice.deleted_option && item.options != std::vector{*choice.deleted_option}))
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

  void add_group(ListNode& node, const DefaultsItem& item, const std::string& parent_package,
                 const std::string& parent) {
    const std::string key = choice_key(item.name, package_below(parent_package, item));
    const bool is_addition = item.is_list && item.from_command_line;  // to whatever the group holds already
    if (!is_addition) {
      const auto [first, is_new] = chosen_.try_emplace(key, item);
      if (!is_new) return chosen_twice(key, item, first->second);
    }
    if (item.mandatory) {
      return error(ErrorCode::kMandatoryValue, item.where, "an option of '" + key + "' must be chosen",
                   "give it: " + key + "=OPTION; options: " + join(files_.options(item.name), ", "));
    }
    if (!item.is_list && !item.options.empty()) {
      add_option(node, item, item.options.front(), parent_package, parent);
    } else {
      for (const std::string& option : item.options) {
        add_option(*node.children.emplace_back(std::make_unique<ListNode>()), item, option, parent_package, parent);
      }
    }
    node.text = key + ": " + (item.options.empty() ? "null" : join(item.options, ", "));
  }

  void add_option(ListNode& node, const DefaultsItem& item, const std::string& option,
                  const std::string& parent_package, const std::string& parent) {
    const bool leads_out = option.find("..") != std::string::npos || option.find('\\') != std::string::npos ||
                           option.starts_with('/') || option.empty();
    if (leads_out) {
      return error(ErrorCode::kUnknownGroupOption, item.where, "'" + option + "' cannot name an option",
                   "options: " + join(files_.options(item.name), ", "));
    }
    add_config(node, item, item.name + "/" + option, parent_package, parent);
  }

  /// Items that hold ${group}: in turns, since one may choose for another, until nothing more can be filled in.
  void expand_waiting() {
    in_waiting_ = true;
    for (bool progress = true; progress;) {
      progress = false;
      for (ListNode* node : std::exchange(waiting_, {})) {
        DefaultsItem item = *node->waiting;
        bool known = fill_in(item.name);
        for (std::string& option : item.options) known = fill_in(option) && known;
        if (!known) {
          waiting_.push_back(node);
          continue;
        }
        progress = true;
        const std::string package = node->package, parent = node->parent;
        *node = ListNode();
        if (item.kind == DefaultsItem::Kind::kGroup) add_group(*node, item, package, parent);
        else add_config(*node, item, item.name, package, parent);
      }
    }
    in_waiting_ = false;
    for (const ListNode* node : waiting_) {
      std::vector<std::string> keys;
      for (const auto& [key, item] : chosen_) keys.push_back(key);
      const std::string shown = node->waiting->options.empty() ? node->waiting->name : node->waiting->options.front();
      error(ErrorCode::kInterpolationUnknown, node->waiting->where, "'" + shown + "' names no choice that was made",
            keys.empty() ? "" : "choices: " + join(keys, ", "));
    }
  }

  /// Replaces each ${key} in `text` by the option chosen for it; false where there is none.
  bool fill_in(std::string& text) const {
    for (std::size_t start = 0; (start = text.find("${", start)) != text.npos;) {
      const std::size_t end = text.find('}', start);
      if (end == text.npos) return false;
      const auto found = chosen_.find(text.substr(start + 2, end - start - 2));
      const bool known = found != chosen_.end() && !found->second.is_list && found->second.options.size() == 1 &&
                         !found->second.has_interpolation();
      if (!known) return false;
      text.replace(start, end - start + 1, found->second.options.front());
      start += found->second.options.front().size();
    }
    return true;
  }

  void chosen_twice(const std::string& key, const DefaultsItem& item, const DefaultsItem& other) {
    const DefaultsItem& late = other.from_command_line ? other : item;
    const DefaultsItem& early = other.from_command_line ? item : other;
    if (late.from_command_line) {
      error(ErrorCode::kOverrideExists, late.where, "the defaults list chooses '" + key + "' already",
            "without + it is changed: " + key + "=" + join(late.options, ","), {{early.where, "chosen here"}});
    } else {
      error(ErrorCode::kBadDefaults, other.where, "'" + key + "' is twice in the defaults lists",
            "to choose another option write '- override " + key + ": OPTION'", {{item.where, "first chosen here"}});
    }
  }

  /// Unused choices of nothing whose group is the name of a key.
  std::vector<Override> take_about_values(const std::vector<ConfigPart>& parts) {
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

  void report_unused() {
    std::vector<std::string> groups;
    for (const auto& [key, item] : chosen_) groups.push_back(key);
    for (const auto& [key, choice] : choices_) {
      if (choice.used) continue;
      const std::string value = join(choice.options, ",");
      if (choice.deleted) {
        const auto chosen = chosen_.find(key);
        error(
            ErrorCode::kCannotDelete, choice.override->key_where,
            "cannot delete '" + choice.override->where.source->contents.substr(1) + "': no match in the defaults list",
            chosen == chosen_.end() ? did_you_mean(key, groups)
                                    : "'" + key + "' is '" + join(chosen->second.options, ",") + "'");
      } else if (choice.override) {
        error(ErrorCode::kUnknownGroup, choice.override->key_where,
              "the defaults list has no '" + key + "' to override", how_to_choose(key, groups, value));
      } else {
        error(ErrorCode::kBadDefaults, choice.where, "no earlier item of the defaults lists chooses '" + key + "'",
              how_to_override(key, groups, value));
      }
    }
  }

  /// A file's override of `key` finds nothing: the same group from the root, or a similar name.
  static std::string how_to_override(const std::string& key, const std::vector<std::string>& groups,
                                     const std::string& value) {
    const std::string group = key.substr(0, key.find('@'));
    for (const std::string& other : groups) {
      if (group.ends_with("/" + other))
        return "for the group from the root write '- override /" + other + ": " + value + "'";
    }
    return did_you_mean(key, groups);
  }

  /// `key` chooses nothing: the same group under another package, a similar name, or how to add it.
  static std::string how_to_choose(const std::string& key, const std::vector<std::string>& groups,
                                   const std::string& value) {
    std::vector<std::string> elsewhere;
    for (const std::string& group : groups) {
      if (group.substr(0, group.find('@')) == key.substr(0, key.find('@'))) elsewhere.push_back(group);
    }
    std::string help = elsewhere.size() > 1 ? "did you mean one of " + join(elsewhere, ", ") + "?"
                       : elsewhere.empty()  ? did_you_mean(key, groups)
                                            : "did you mean '" + elsewhere.front() + "'?";
    return (help.empty() ? "" : help + " ") + "to append to the defaults list use +" + key + "=" + value;
  }

  /// The tree without what only building needs; the parts of it in their order.
  static DefaultsNode flattened(const ListNode& node, std::vector<ConfigPart>& parts) {
    DefaultsNode result{node.text};
    if (node.part) parts.push_back(*node.part);
    for (const auto& child : node.children) result.children.push_back(flattened(*child, parts));
    return result;
  }

  ConfigFiles& files_;
  const ConfigDocument& primary_;
  const std::string name_;
  std::map<std::string, Choice> choices_;       // by group, as overrides name it
  std::map<std::string, DefaultsItem> chosen_;  // what each group came to
  std::vector<DefaultsItem> appended_;          // to the primary's list
  std::vector<const ConfigDocument*> open_;     // being visited, outermost first
  std::vector<ListNode*> waiting_;
  bool in_waiting_ = false;
  Location item_where_;  // of the item that led here
  std::size_t visited_ = 0;
  Diagnostics errors_;
};

}  // namespace

Result<DefaultsList> build_defaults(ConfigFiles& files, const ConfigDocument& primary, const std::string& name,
                                    std::span<const Override> choices) {
  return Tree(files, primary, name, choices).build();
}

}  // namespace runner
