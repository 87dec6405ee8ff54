#include "runner/parent/cli/commands/config.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command_line.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/config/composition_views.h"
#include "runner/parent/config/provenance.h"
#include "runner/parent/config/yaml_writer.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

std::vector<std::string> key_words(const std::string& key) {
  std::vector<std::string> words;
  std::istringstream stream(key);
  for (std::string word; std::getline(stream, word, '.');) words.push_back(word);
  return words;
}

/// Returns an error that quotes the first part of `key` that does not exist in `recipe` and
/// suggests the closest existing key.
Diagnostic no_such_key(const Value& recipe, const std::string& key) {
  std::string found;
  for (const std::string& word : key_words(key)) {
    const std::string next = found.empty() ? word : found + "." + word;
    if (at_key(recipe, next)) {
      found = next;
      continue;
    }
    std::vector<std::string> names;
    if (const auto* map = at_key(recipe, found)->map()) {
      for (const Entry& entry : *map) names.push_back(entry.key);
    }
    return {ErrorCode::kUnknownKey,
            {},
            "",
            "the recipe has no key '" + next + "'",
            did_you_mean(word, names)};
  }
  return {ErrorCode::kUnknownKey, {}, "", "no key given", "write --explain train.epochs"};
}

ExitCode explain_key(const Composition& composition, const Value& shown, const std::string& key,
                     const SchemaSet& schemas, Console& console) {
  const std::vector<Write> found = writes(composition.layers, composition.overrides, key);
  const std::optional<Value> fallback = schemas.declared(shown, key_words(key));
  const Value* value = at_key(shown, key);
  if (found.empty() && !fallback && !value) return report(console, {no_such_key(shown, key)});
  if (console.json)
    print_result(console, "config_explain/1", provenance_json(key, value, fallback, found));
  else console.out << provenance_text(key, value, fallback, found);
  return ExitCode::kDone;
}

ExitCode show(const Value& recipe, const ConfigView& view, Console& console) {
  const Value* part = at_key(recipe, view.package);
  if (!part) return report(console, {no_such_key(recipe, view.package)});
  if (console.json) {
    nlohmann::ordered_json json = {{"package", view.package}, {"config", to_json(*part)}};
    if (view.origin) json["origins"] = origins_json(*part);
    print_result(console, "config/1", json);
    return ExitCode::kDone;
  }
  const bool is_scalar = !part->map() && !part->list();
  if (!view.package.empty() && !is_scalar) console.out << "# @package " << view.package << '\n';
  console.out << (view.origin ? yaml_with_origins(*part) : write_yaml(*part));
  return ExitCode::kDone;
}

/// Shows how the recipe is composed, in one of the views of --info.
ExitCode info(const std::string& view, const Composer& composer, const DefaultsList& list,
              Console& console) {
  const bool is_path = view == "searchpath", is_list = view == "defaults";
  if (console.json) {
    if (is_path)
      print_result(console, "config_searchpath/1",
                   {{"folders", search_path_json(composer.configs())}});
    else if (is_list)
      print_result(console, "config_defaults/1", {{"configs", defaults_json(list)}});
    else print_result(console, "config_defaults_tree/1", defaults_tree_json(list));
  } else {
    console.out << (is_path   ? search_path_text(composer.configs())
                    : is_list ? defaults_text(list)
                              : defaults_tree_text(list));
  }
  return ExitCode::kDone;
}

/// Shows how the overrides change the recipe or, if they include a second recipe, how the two
/// recipes differ.
ExitCode show_difference(const NamedRecipe& named, bool resolve, Console& console) {
  // The words are a recipe, its overrides and, optionally, another recipe with its own overrides.
  const auto second = std::ranges::find_if_not(named.overrides, is_override);
  NamedRecipe before = named, after = named;
  if (second == named.overrides.end()) {
    before.overrides.clear();
  } else {
    before.overrides.assign(named.overrides.begin(), second);
    after.name = *second;
    after.overrides.assign(second + 1, named.overrides.end());
  }
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  Diagnostics errors;
  const auto value_of = [&](const NamedRecipe& side) {
    const Result<ShownConfig> shown = compose_to_show(side, resolve, schemas, sources);
    if (shown) return shown->recipe;
    errors.insert(errors.end(), shown.errors().begin(), shown.errors().end());
    return Value{};
  };
  const Value left = value_of(before), right = value_of(after);
  if (!errors.empty()) return report(console, errors);
  const std::vector<Difference> found = differences(left, right);
  if (console.json)
    print_result(console, "config_diff/1", {{"differences", differences_json(found)}});
  else console.out << differences_text(found);
  return ExitCode::kDone;
}

struct ConfigFlags {
  std::string action;
  NamedRecipe recipe;
  ConfigView view;
};

ExitCode look_at_config(const ConfigFlags& flags, Console& console) {
  return flags.action == "diff" ? show_difference(flags.recipe, flags.view.resolve, console)
                                : show_config(flags.recipe, flags.view, console);
}

Invocation declare_config() {
  const auto flags = std::make_shared<ConfigFlags>();
  Invocation verb;
  verb.add({.name = "action",
            .value = &flags->action,
            .summary = "show RECIPE, or diff RECIPE [overrides] [RECIPE [overrides]]",
            .choices = {"show", "diff"},
            .required = true});
  verb.action = &flags->action;
  verb.add_recipe(flags->recipe);
  verb.add({.name = "--origin",
            .value = &flags->view.origin,
            .summary = "Show which file or override each value came from"});
  verb.add({.name = "--explain",
            .value = &flags->view.explain,
            .summary = "List everything that set this key, in order",
            .type = "KEY"});
  add_views(verb, flags->view);
  verb.run = [flags](Console& console) { return look_at_config(*flags, console); };
  return verb;
}

}  // namespace

void add_views(Invocation& verb, ConfigView& view) {
  verb.add({.name = "-p,--package",
            .value = &view.package,
            .summary = "Show only this key and the keys below it",
            .type = "KEY"});
  verb.add({.name = "--resolve",
            .value = &view.resolve,
            .summary = "Resolve interpolations and fill in all defaults"});
  verb.add({.name = "-i,--info",
            .value = &view.info,
            .summary = "Show how the recipe is composed: defaults, defaults-tree or searchpath",
            .type = "VIEW",
            .choices = {"defaults", "defaults-tree", "searchpath"}});
}

ExitCode show_config(const NamedRecipe& named, const ConfigView& view, Console& console) {
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  if (!view.info.empty()) {
    auto composer = open_recipe(named, schemas, sources);
    if (!composer) return report(console, composer.errors());
    const auto composition = composer->compose_once();
    if (!composition) return report(console, composition.errors());
    return info(view.info, *composer, composition->defaults, console);
  }
  const auto shown = compose_to_show(named, view.resolve, schemas, sources);
  if (!shown) return report(console, shown.errors());
  warn(console, shown->composition.warnings);
  if (!view.explain.empty())
    return explain_key(shown->composition, shown->recipe, view.explain, schemas, console);
  return show(shown->recipe, view, console);
}

const Command kConfigCommand = {
    "config",
    "Shows a recipe as composed from its groups and overrides, or how two recipes differ.",
    "retort config show classify model=clip_vit_b32 --resolve", declare_config};

}  // namespace runner
