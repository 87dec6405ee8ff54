#include "runner/parent/cli/commands/explain.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/config/alias.h"
#include "runner/parent/schema/option_listing.h"
#include "runner/parent/schema/published_schema.h"
#include "runner/shared/text/comment_header.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// Options that share a description, and the kinds that have them.
struct SameOptions {
  Option option;
  std::vector<std::string> stages, owners;
};

std::string default_phrase(const Option& option) {
  if (option.required) return "; required";
  return option.fallback ? "; default " + default_text(option) : "";
}

/// Returns the values that an option accepts: "an integer of at least 1 (epochs); default 10".
std::string head(const Option& option) { return takes_phrase(option) + default_phrase(option); }

Json option_json(const Option& option) {
  Json json = {{"key", option.key}, {"takes", option.takes}};
  if (!option.unit.empty()) json["unit"] = option.unit;
  if (option.fallback) json["default"] = to_json(*option.fallback);
  json.update({{"required", option.required}, {"help", option.help}});
  return json;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && !std::ranges::count(names, name)) names.push_back(name);
}

std::vector<SameOptions> grouped(const std::vector<Option>& options, std::string_view key) {
  std::vector<SameOptions> groups;
  for (const Option& option : options) {
    if (option.key != key) continue;
    const auto same = [&](const SameOptions& group) {
      return head(group.option) == head(option) && group.option.help == option.help;
    };
    auto group = std::ranges::find_if(groups, same);
    if (group == groups.end()) group = groups.insert(groups.end(), SameOptions{option, {}, {}});
    add_once(group->stages, option.stage);
    if (option.owner != option.stage) add_once(group->owners, option.owner);
  }
  return groups;
}

/// Describes the option `key` for every kind. Kinds with the same description share an entry; if
/// only their defaults differ, the entry has one line per default.
std::string groups_text(std::string_view key, const std::vector<SameOptions>& groups) {
  std::string text;
  std::vector<bool> is_reported(groups.size(), false);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (is_reported[i]) continue;
    const Option& option = groups[i].option;
    std::vector<const SameOptions*> same;
    for (std::size_t k = i; k < groups.size(); ++k) {
      const Option& other = groups[k].option;
      if (takes_phrase(other) != takes_phrase(option) || other.help != option.help) continue;
      same.push_back(&groups[k]);
      is_reported[k] = true;
    }
    const bool is_one = same.size() == 1;
    text += (text.empty() ? "" : "\n") + std::string(key) + ": " +
            (is_one ? head(option) : takes_phrase(option)) + "\n";
    if (!option.help.empty()) text += "  " + option.help + "\n";
    for (const SameOptions* group : same) {
      const std::string phrase = head(group->option).substr(takes_phrase(option).size());
      if (!is_one) text += phrase.empty() ? "  no default\n" : "  " + phrase.substr(2) + "\n";
      const std::string margin = is_one ? "  " : "    ";
      if (!group->owners.empty())
        text += margin + "of " + joined(group->owners, group->owners.size()) + "\n";
      if (!group->stages.empty())
        text += margin + "in " + joined(group->stages, group->stages.size()) + "\n";
    }
  }
  return text;
}

Explanation explain_key(const std::vector<Option>& options, std::string_view key) {
  Explanation result{"", {{"key", key}, {"options", Json::array()}}};
  const std::vector<SameOptions> groups = grouped(options, key);
  result.text = groups_text(key, groups);
  for (const SameOptions& group : groups) {
    Json json = option_json(group.option);
    json.erase("key");
    json.update(
        {{"kinds", group.owners.empty() ? group.stages : group.owners}, {"stages", group.stages}});
    result.json["options"].push_back(std::move(json));
  }
  std::vector<std::string> below;
  for (const Option& option : options) {
    if (option.key.size() > key.size() && option.key.starts_with(key) &&
        option.key[key.size()] == '.')
      add_once(below, option.key.substr(key.size() + 1));
  }
  if (!below.empty()) {
    result.text += "\nKeys below it: " + joined(below, below.size()) + "\n";
    result.json["below"] = below;
  }
  return result;
}

Explanation explain_kind(const SchemaSet& schemas, const std::string& name) {
  const Json& document = *schemas.document(name);
  const std::string summary = document.value("description", "");
  Explanation result{name + ": " + summary + "\n", {{"kind", name}}};
  if (const Kind* kind = schemas.kind(name)) {
    result.text += ports_text(*kind, "  ");
    result.json.update(kind_json(*kind));
    result.json.erase("name");
  } else {
    result.json["summary"] = summary;
  }
  result.json["options"] = Json::array();
  result.text += "\n";
  for (const Option& option : options_of(schemas, name)) {
    result.text += "  " + option.key + ": " + takes_phrase(option) + default_phrase(option) + "\n";
    if (!option.help.empty()) result.text += "      " + option.help + "\n";
    result.json["options"].push_back(option_json(option));
  }
  return result;
}

Explanation explain_kinds(const SchemaSet& schemas, std::string_view what,
                          const std::vector<std::string>& names) {
  Explanation result{"", {{"kinds", Json::array()}}};
  for (const std::string& name : names) {
    const Json& document = *schemas.document(name);
    const std::string summary = document.value("description", "");
    result.text += name + ": " + summary + "\n";
    result.json["kinds"].push_back({{"kind", name}, {"summary", summary}});
  }
  result.json["in"] = what;
  return result;
}

std::string indented(std::string_view text) {
  std::string result = "    ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "    ";
  }
  return result;
}

Explanation explain_code(const ErrorInfo& error) {
  const int exit = static_cast<int>(error.exit);
  return {name(error.code) + ": " + std::string(error.title) + "\n  " + std::string(error.cause) +
              "\n\n  For example:\n" + indented(error.example) + "\n\n  " +
              std::string(error.remedy) + "\n  Exit code: " + std::to_string(exit) + ".\n",
          {{"code", name(error.code)},
           {"title", error.title},
           {"cause", error.cause},
           {"example", error.example},
           {"remedy", error.remedy},
           {"exit", exit}}};
}

/// Returns the kinds of a family, such as "train", or of the sub-mappings in a folder, such as
/// "train/optimizer"; empty if `what` is neither.
std::vector<std::string> kinds_in(const SchemaSet& schemas, std::string_view what) {
  std::vector<std::string> names;
  for (const Kind& kind : schemas.kinds()) {
    if (kind.family == what) names.push_back(kind.name);
  }
  if (!names.empty() || what.find('/') == what.npos) return names;
  for (const std::string& kind : schemas.sub_kinds(what))
    names.push_back(std::string(what) + "/" + kind);
  return names;
}

}  // namespace

std::vector<std::string> explainable(const SchemaSet& schemas) {
  std::vector<std::string> names;
  for (const Option& option : all_options(schemas)) add_once(names, option.key);
  std::vector<std::string> folders = schemas.sub_kind_folders();
  for (const Kind& kind : schemas.kinds()) {
    names.push_back(kind.name);
    add_once(folders, kind.family);
  }
  for (const std::string& folder : schemas.sub_kind_folders()) {
    for (const std::string& kind : schemas.sub_kinds(folder)) names.push_back(folder + "/" + kind);
  }
  for (const std::string& folder : folders) add_once(names, folder);
  for (const ErrorInfo& error : all_errors()) names.push_back(name(error.code));
  return names;
}

Result<Explanation> explain(const SchemaSet& schemas, std::string_view what) {
  std::string code(what);
  std::ranges::transform(code, code.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const ErrorInfo& error : all_errors()) {
    if (name(error.code) == code) return explain_code(error);
  }
  const std::vector<std::string> known = explainable(schemas);
  if (std::ranges::count(known, what)) {
    const std::vector<Option> options = all_options(schemas);
    if (std::ranges::count(options, what, &Option::key)) return explain_key(options, what);
    if (const auto names = kinds_in(schemas, what); !names.empty())
      return explain_kinds(schemas, what, names);
    return explain_kind(schemas, std::string(what));
  }
  std::vector<Alias> aliases;
  add_common_aliases(aliases);
  if (const auto alias = std::ranges::find(aliases, what, &Alias::name); alias != aliases.end()) {
    auto meant = explain(schemas, alias->targets.front());
    if (meant)
      meant->text =
          std::string(what) + ": short for " + alias->targets.front() + "\n\n" + meant->text;
    return meant;
  }
  const std::string near = did_you_mean_path(what, known);
  return Diagnostic{
      ErrorCode::kUsage,
      {},
      "",
      "there is no key, kind or error called " + in_quotes(what),
      near.empty()
          ? "`retort stages` lists the kinds; `retort explain train.supervised` lists its keys"
          : near};
}

namespace {

/// Explains the recipe called `name`, using the comment at the start of its file; nullopt if there
/// is no such recipe.
std::optional<Explanation> explain_recipe(const std::string& name, Sources& sources) {
  NamedRecipe recipe;
  recipe.name = name;
  auto composer = open_without_overrides(recipe, shipped_schemas(), sources);
  if (!composer) return std::nullopt;
  const auto source =
      std::ranges::find(sources.all(), composer->file().string(), &SourceText::name);
  if (source == sources.all().end()) return std::nullopt;
  const std::vector<std::string> lines = comment_header(source->contents);
  std::string text = "the recipe " + name + ", " + composer->file().string() + "\n";
  for (const std::string& line : lines) text += (line.empty() ? "" : "  ") + line + "\n";
  return Explanation{text + "\nIts options and short names: `retort run " + name + " --help`\n",
                     {{"recipe", name}, {"file", composer->file().string()}, {"lines", lines}}};
}

ExitCode explain_word(const std::string& what, Console& console) {
  auto explanation = explain(shipped_schemas(), what);
  if (!explanation)
    if (auto recipe = explain_recipe(what, console.sources)) explanation = *std::move(recipe);
  if (!explanation) return report(console, explanation.errors());
  if (console.json) print_result(console, "explain/1", explanation->json);
  else console.out << explanation->text;
  return ExitCode::kDone;
}

Invocation declare_explain() {
  const auto what = std::make_shared<std::string>();
  Invocation verb;
  verb.add({.name = "what",
            .value = what.get(),
            .summary = "A key such as train.epochs, a short name such as lr, a kind such as "
                       "train.supervised, a recipe, or an error such as E0301",
            .required = true});
  verb.run = [what](Console& console) { return explain_word(*what, console); };
  return verb;
}

}  // namespace

const Command kExplainCommand = {"explain", "Explains an option, a kind of stage or an error.",
                                 "retort explain train.epochs", declare_explain};

}  // namespace runner
