#include "runner/parent/cli/completion/complete.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/command_line.h"
#include "runner/parent/cli/commands/data.h"
#include "runner/parent/cli/commands/explain.h"
#include "runner/parent/cli/completion/candidate.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/config/override.h"
#include "runner/parent/devices/choose_device.h"
#include "runner/parent/registry/run_listing.h"
#include "runner/shared/text/comment_header.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kMaxRecipe =
    64u << 10;  // maximum number of bytes read from a recipe's file to find its first sentence

Candidates verbs() {
  Candidates found = {{"--help", "What retort does"},
                      {"--version", "Versions of retort, LibTorch and CUDA"}};
  for (const Command* command : all_commands())
    found.push_back({std::string(command->name), std::string(command->summary)});
  return found;
}

Candidates flags(const UnfinishedLine& line, std::string_view typed) {
  const std::size_t equals = typed.find('=');
  Candidates found;
  for (const ExpectedWord& flag : line.flags) {
    if (equals == typed.npos) found.push_back({flag.name, flag.summary});
    if (typed.substr(0, equals) != flag.name) continue;
    for (const std::string& choice : flag.choices) found.push_back({flag.name + "=" + choice});
  }
  return found;
}

/// Returns the names of recipes, and recipe files.
Candidates recipes(const NamedRecipe& named, std::string_view typed) {
  const FileSystem& files = real_file_system();
  Candidates found = complete_path(files, typed, ".yaml");
  if (typed.empty())
    std::erase_if(found, [](const Candidate& file) { return file.text.ends_with('/'); });
  Sources sources;
  const ConfigFiles configs(files, recipe_folders(named), sources);
  for (const std::string& name : configs.options("")) {
    const auto file = configs.find(name);
    const auto text = file ? files.read(*file, kMaxRecipe) : std::nullopt;
    found.push_back({name, text ? first_sentence(*text) : ""});
  }
  return found;
}

/// Returns the kinds of stages, "train.supervised", and of their sub-mappings,
/// "train/optimizer/adam".
Candidates kinds(const SchemaSet& schemas) {
  Candidates found;
  for (const Kind& kind : schemas.kinds()) {
    found.push_back({kind.name, kind.summary});
  }
  for (const SchemaFile& file : embedded_schemas()) {
    if (std::ranges::count(file.path, '/') != 2) continue;
    const std::string name(file.path.substr(0, file.path.find('.')));
    found.push_back({name, schemas.document(name)->value("description", "")});
  }
  return found;
}

/// Completes an override, a key or a stage (depending on `what`) of the recipe named on the line.
Candidates about_recipe(const UnfinishedLine& line, const ExpectedWord& what,
                        std::string_view typed) {
  NamedRecipe named = line.recipe;
  // `config diff` may name a second recipe; the words after it belong to the second.
  Candidates found;
  if (line.action == "diff") {
    const auto second = std::ranges::find_if_not(named.overrides, is_override);
    if (second == named.overrides.end()) {
      found = recipes(named, typed);
    } else {
      named.name = *second;
      named.overrides.erase(named.overrides.begin(), second + 1);
    }
  }
  const SchemaSet& schemas = shipped_schemas();
  Sources sources;
  auto composer = open_without_overrides(named, schemas, sources);
  if (!composer) return found;
  const Outline outline(*composer, named.overrides, schemas, sources);
  if (what.type == "KEY") return complete_dotted_key(typed, outline);
  if (what.type == "NODE") {
    Candidates stages;
    for (const Entry& entry : *outline.recipe().map()) {
      if (entry.value.find("kind")) stages.push_back({entry.key});
    }
    return stages;
  }
  if (typed.find('=') != typed.npos)
    return complete_override_value(typed, outline, real_file_system());
  for (Candidate& key : complete_override_key(typed, outline)) found.push_back(std::move(key));
  return found;
}

Candidates values(const UnfinishedLine& line, std::string_view typed) {
  const ExpectedWord& what = *line.next;
  Candidates found;
  if (!what.choices.empty()) {
    for (const std::string& choice : what.choices) found.push_back({choice});
    return found;
  }
  if (what.type == "GPU") {
    for (const DeviceModel& model : device_models())
      found.push_back(
          {short_name(model), std::string(model.architecture) + ", " + size_text(model.memory)});
    return found;
  }
  if (what.type == "DATA") {
    if (line.action == "check") return recipes(line.recipe, typed);
    const bool is_fetch = line.action == "fetch";
    std::span<const std::string_view> names = kMakeableData;
    if (is_fetch) names = kFetchableData;
    for (const std::string_view name : names) found.push_back({std::string(name)});
    if (is_fetch) found.push_back({"hf:", "A model on the Hugging Face Hub: hf:ORG/NAME"});
    return found;
  }
  if (what.name == "--from-file") return complete_path(real_file_system(), typed, "");
  if (what.type == "DIR" || what.name == "run" || what.name == "runs")
    return complete_folder(real_file_system(), typed);
  if (what.type == "RUNKEY") {
    for (const std::string& key : listed_keys(run_index_folder())) found.push_back({key});
    return found;
  }
  if (what.type == "NAME") return recipes(line.recipe, typed);
  if (what.name == "kind") return kinds(shipped_schemas());
  if (line.verb == "explain") {
    for (const std::string& name : explainable(shipped_schemas())) found.push_back({name});
    return found;
  }
  if (what.name == "file") return complete_path(real_file_system(), typed, ".yaml");
  const bool is_word_of_recipe = what.name == "recipe" || what.name == "overrides";
  if (is_word_of_recipe && line.recipe.name.empty()) return recipes(line.recipe, typed);
  if (is_word_of_recipe || what.type == "KEY" || what.type == "NODE")
    return about_recipe(line, what, typed);
  return found;
}

}  // namespace

Candidates complete(std::span<const std::string> words) {
  const std::string& typed = words.back();
  Candidates found;
  if (words.size() == 1) {
    found = verbs();
  } else {
    const UnfinishedLine line = parse_unfinished(words.first(words.size() - 1));
    if (typed.starts_with('-') && !line.is_flag_value) found = flags(line, typed);
    else if (line.next) found = values(line, typed);
  }
  std::erase_if(found, [&typed](const Candidate& candidate) {
    const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
    return !candidate.text.starts_with(typed) || std::ranges::any_of(candidate.text, is_control);
  });
  return found;
}

namespace {

bool can_be_typed(const std::string& key) { return override_key_length(key) == key.size(); }

std::string first_sentence_of(const std::string& description) {
  const std::size_t stop = description.find(". ");
  return stop == description.npos ? description : description.substr(0, stop + 1);
}

/// Returns the text of a value, cut to 40 columns, to show next to its key.
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
        take_key(parent.empty() ? key : meant + "." + key,
                 parent.empty() ? key : parent + "." + key);
      }
    }
    std::ranges::sort(found_);
    const auto same_text = [](const Candidate& a, const Candidate& b) { return a.text == b.text; };
    found_.erase(std::unique(found_.begin(), found_.end(), same_text), found_.end());
    return std::move(found_);
  }

 private:
  /// Keys of a recipe that users do not override.
  static bool is_about_recipe(const std::string& key) {
    return key == "schema" || key == "aliases" || key == "defaults" || key == "kind";
  }

  void add(const std::string& name, std::string_view end, std::string description) {
    if (!name.starts_with(typed_) || !can_be_typed(name)) return;
    found_.push_back(
        {std::string(prefix(kind_)) + name + std::string(end), std::move(description)});
  }

  /// True if an override with this prefix may choose an option of `group`. If the recipe does not
  /// compose, any group may be chosen without a prefix.
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

  /// Adds candidates for `key`, which the user would type as `shown`.
  void take_key(const std::string& key, const std::string& shown,
                const std::string& description = "") {
    const Value* value = at_key(outline_.recipe(), key);
    if (kind_ == OverrideKind::kDelete && !value) return;
    if (!shown.starts_with(typed_)) return;
    const KeyChoices choices = outline_.choices(key);
    const std::string summary =
        description.empty() ? first_sentence_of(choices.description) : description;
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
