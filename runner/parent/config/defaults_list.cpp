#include "runner/parent/config/defaults_list.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/group_choices.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

constexpr std::size_t kMaxParts = 1000;
constexpr std::ptrdiff_t kDeepestPackage = 64;

std::string group_of(const std::string& config) {
  const std::size_t slash = config.rfind('/');
  return slash == std::string::npos ? "" : config.substr(0, slash);
}

/// A config being added to the list, or an item waiting for the choices that it depends on.
struct ListNode {
  std::string text;
  std::optional<ConfigPart> part;       // set for _self_
  std::optional<DefaultsItem> waiting;  // an item with ${group}
  std::string package, parent, group;   // from the list that contains `waiting`
  std::vector<std::unique_ptr<ListNode>> children;
};

class Tree {
 public:
  Tree(ConfigFiles& files, const ConfigDocument& primary, std::string name,
       std::span<const Override> overrides)
      : files_(files), primary_(primary), name_(std::move(name)) {
    for (const Override& override : overrides) {
      if (override.kind == OverrideKind::kAdd) append(override);
      else choices_.choose(override);
    }
  }

  Result<DefaultsList> build() {
    ListNode root;
    grow(root);
    if (const auto additions = choices_.take_additions(); !additions.empty()) {
      for (const Override* addition : additions) append(*addition);
      choices_.restart();
      chosen_.clear();
      waiting_.clear();
      errors_.clear();
      visited_ = 0;
      root = ListNode();
      grow(root);
    }
    DefaultsList list;
    list.tree = flattened(root, list.parts);
    list.about_values = choices_.take_about_values(list.parts);
    choices_.report_unused(chosen_, errors_);
    if (!errors_.empty()) return errors_;
    for (const auto& [key, item] : chosen_) {
      if (item.is_list) continue;
      list.choices.push_back(
          {key, item.options.empty() ? std::nullopt : std::optional(item.options.front())});
    }
    return list;
  }

 private:
  void error(ErrorCode code, const Location& where, std::string message, std::string help,
             std::vector<Note> notes = {}) {
    errors_.push_back({code, where, "", std::move(message), std::move(help), std::move(notes)});
  }

  void append(const Override& override) {
    DefaultsItem item{DefaultsItem::Kind::kGroup, override.key, override.key};
    std::ranges::replace(item.package, '/', '.');
    if (override.package) item.package = *override.package;
    item.has_package = override.package.has_value();
    item.options = chosen_options(*override.value);
    item.is_list = override.value->list() != nullptr;
    item.where = override.value->where;
    item.from_command_line = true;
    appended_.push_back(std::move(item));
  }

  void grow(ListNode& root) {
    std::string package = primary_.package ? header_package(*primary_.package) : group_of(name_);
    std::ranges::replace(package, '/', '.');
    root.text = name_;
    visit(root, primary_, name_, package, "");
    expand_waiting();
  }

  /// Adds the items of a config's defaults list. Override items affect the items before them, so
  /// the list is walked from its end.
  void visit(ListNode& node, const ConfigDocument& document, const std::string& name,
             const std::string& package, const std::string& parent) {
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
      if (child->part || child->waiting || !child->text.empty())
        node.children.push_back(std::move(child));
    }
    std::ranges::reverse(node.children);
    if (visited_ == kMaxParts + 1)
      error(ErrorCode::kBadDefaults, document.contents.where,
            "the defaults lists have more than 1000 items", "include fewer configs");
    open_.pop_back();
  }

  void register_override(const DefaultsItem& item, const std::string& parent_package) {
    if (item.name.starts_with("hydra/")) return;  // Hydra's own groups, such as its launcher
    if (in_waiting_) {
      return error(ErrorCode::kBadDefaults, item.where,
                   "a config chosen by an interpolation cannot contain overrides",
                   "move the override to the config that contains the interpolation");
    }
    choices_.choose(item, choice_key(item.name, package_below(parent_package, item)));
  }

  /// Fills `node` with the config of an ordinary item; leaves it empty if there is none.
  void add(ListNode& node, DefaultsItem item, const std::string& parent_package,
           const std::string& parent) {
    if (item.kind == DefaultsItem::Kind::kGroup &&
        !choices_.apply(item, choice_key(item.name, package_below(parent_package, item)))) {
      return;
    }
    if (item.has_interpolation()) {
      node.text = item.name;
      node.waiting = std::move(item);
      node.package = parent_package;
      node.parent = parent;
      waiting_.push_back(&node);
    } else if (item.kind == DefaultsItem::Kind::kConfig) {
      if (!choices_.deletes(item.name)) add_config(node, item, item.name, parent_package, parent);
    } else {
      add_group(node, item, parent_package, parent);
    }
  }

  void add_config(ListNode& node, const DefaultsItem& item, const std::string& name,
                  const std::string& parent_package, const std::string& parent) {
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
      return error(ErrorCode::kNestingTooDeep, item.where, "packages are more than 64 levels deep",
                   "");
    }
    if (document->contents.list() && package.empty()) {
      return error(ErrorCode::kBadDefaults, document->contents.where,
                   "a list cannot be at the root of a recipe",
                   "give it a package: '# @package a.b', or group@a.b in the defaults list");
    }
    node.text = name;
    const Location outer = std::exchange(item_where_, item.where);
    visit(node, *document, name, package, parent);
    item_where_ = outer;
  }

  /// Returns the absolute package for the text of a "# @package" header, which may begin with
  /// _global_ or _here_.
  static std::string header_package(const std::string& header) {
    return package_below("", {.package = header.starts_with("_here_") ? "" : header});
  }

  void missing(const DefaultsItem& item, const std::string& name) {
    const std::string group = group_of(name);
    const std::string option = group.empty() ? name : name.substr(group.size() + 1);
    const std::vector<std::string> options = files_.options(group);
    const std::string near_name = did_you_mean(option, options);
    if (item.kind == DefaultsItem::Kind::kConfig) {
      return error(ErrorCode::kBadDefaults, item.where, "there is no config '" + name + "'",
                   near_name);
    }
    if (options.empty()) {
      return error(ErrorCode::kUnknownGroup, item.where, "there is no config group '" + group + "'",
                   "");
    }
    error(ErrorCode::kUnknownGroupOption, item.where,
          "the group '" + group + "' has no option '" + option + "'",
          (near_name.empty() ? "" : near_name + " ") + "options: " + join(options, ", "));
  }

  void add_group(ListNode& node, const DefaultsItem& item, const std::string& parent_package,
                 const std::string& parent) {
    const std::string key = choice_key(item.name, package_below(parent_package, item));
    const bool is_addition =
        item.is_list && item.from_command_line;  // adds to what the group already has
    if (!is_addition) {
      const auto [first, is_new] = chosen_.try_emplace(key, item);
      if (!is_new) return chosen_twice(key, item, first->second);
    }
    if (item.mandatory) {
      return error(
          ErrorCode::kMandatoryValue, item.where, "an option of '" + key + "' must be chosen",
          "choose one: " + key + "=OPTION; options: " + join(files_.options(item.name), ", "));
    }
    if (!item.is_list && !item.options.empty()) {
      add_option(node, item, item.options.front(), parent_package, parent);
    } else {
      for (const std::string& option : item.options) {
        add_option(*node.children.emplace_back(std::make_unique<ListNode>()), item, option,
                   parent_package, parent);
      }
    }
    node.text = key + ": " + (item.options.empty() ? "null" : join(item.options, ", "));
  }

  void add_option(ListNode& node, const DefaultsItem& item, const std::string& option,
                  const std::string& parent_package, const std::string& parent) {
    const bool leads_out = option.find("..") != std::string::npos ||
                           option.find('\\') != std::string::npos || option.starts_with('/') ||
                           option.empty();
    if (leads_out) {
      return error(ErrorCode::kUnknownGroupOption, item.where,
                   "'" + option + "' is not a valid option name",
                   "options: " + join(files_.options(item.name), ", "));
    }
    add_config(node, item, item.name + "/" + option, parent_package, parent);
  }

  /// Expands items that contain ${group} until no more can be resolved, since one item may choose
  /// the option to which another one refers.
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
      const std::string shown =
          node->waiting->options.empty() ? node->waiting->name : node->waiting->options.front();
      error(ErrorCode::kInterpolationUnknown, node->waiting->where,
            "'" + shown + "' refers to a choice that has not been made",
            keys.empty() ? "" : "choices: " + join(keys, ", "));
    }
  }

  /// Replaces each ${key} in `text` with the option chosen for that group. Returns false if any of
  /// them does not have exactly one known option.
  bool fill_in(std::string& text) const {
    for (std::size_t start = 0; (start = text.find("${", start)) != text.npos;) {
      const std::size_t end = text.find('}', start);
      if (end == text.npos) return false;
      const auto found = chosen_.find(text.substr(start + 2, end - start - 2));
      const bool known = found != chosen_.end() && !found->second.is_list &&
                         found->second.options.size() == 1 && !found->second.has_interpolation();
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
      error(ErrorCode::kOverrideExists, late.where,
            "the defaults list already chooses '" + key + "'",
            "to change it, leave out the +: " + key + "=" + join(late.options, ","),
            {{early.where, "chosen here"}});
    } else {
      error(ErrorCode::kBadDefaults, other.where,
            "'" + key + "' appears twice in the defaults lists",
            "to choose another option write '- override " + key + ": OPTION'",
            {{item.where, "first chosen here"}});
    }
  }

  /// Converts `node` to a DefaultsNode, and adds its configs to `parts` in order.
  static DefaultsNode flattened(const ListNode& node, std::vector<ConfigPart>& parts) {
    DefaultsNode result{node.text};
    if (node.part) parts.push_back(*node.part);
    for (const auto& child : node.children) result.children.push_back(flattened(*child, parts));
    return result;
  }

  ConfigFiles& files_;
  const ConfigDocument& primary_;
  const std::string name_;
  GroupChoices choices_;
  std::map<std::string, DefaultsItem> chosen_;  // the final item of each group
  std::vector<DefaultsItem> appended_;          // appended to the primary config's list
  std::vector<const ConfigDocument*> open_;     // being visited, outermost first
  std::vector<ListNode*> waiting_;
  bool in_waiting_ = false;
  Location item_where_;  // the location of the item that included the current config
  std::size_t visited_ = 0;
  Diagnostics errors_;
};

}  // namespace

Result<DefaultsList> build_defaults(ConfigFiles& files, const ConfigDocument& primary,
                                    const std::string& name, std::span<const Override> choices) {
  return Tree(files, primary, name, choices).build();
}

}  // namespace runner
