#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/config/composition_views.h"
#include "runner/config/origin.h"
#include "runner/config/provenance.h"
#include "runner/config/yaml_writer.h"
#include "runner/cli/prepare.h"
#include "runner/text/suggest.h"

namespace runner {
namespace {

std::vector<std::string> words_of(const std::string& key) {
  std::vector<std::string> words;
  std::istringstream stream(key);
  for (std::string word; std::getline(stream, word, '.');) words.push_back(word);
  return words;
}

/// `recipe` holds nothing at `key`: says which word of it is not there, and which is near.
Diagnostic no_such_key(const Value& recipe, const std::string& key) {
  std::string found;
  for (const std::string& word : words_of(key)) {
    const std::string next = found.empty() ? word : found + "." + word;
    if (at_key(recipe, next)) {
      found = next;
      continue;
    }
    std::vector<std::string> names;
    if (const auto* map = at_key(recipe, found)->map()) {
      for (const Entry& entry : *map) names.push_back(entry.key);
    }
    return {ErrorCode::kUnknownKey, {}, "", "the recipe has no key '" + next + "'", did_you_mean(word, names)};
  }
  return {ErrorCode::kUnknownKey, {}, "", "no key is named", "write --explain train.epochs"};
}

ExitCode explain(const Composition& composition, const Value& shown, const std::string& key, const SchemaSet& schemas,
                 Console& console) {
  const std::vector<Write> found = writes(composition.layers, composition.overrides, key);
  const std::optional<Value> fallback = schemas.declared(shown, words_of(key));
  const Value* value = at_key(shown, key);
  if (found.empty() && !fallback && !value) return report(console, {no_such_key(shown, key)});
  if (console.json) console.out << provenance_json(key, value, fallback, found).dump(2) << '\n';
  else console.out << provenance_text(key, value, fallback, found);
  return ExitCode::kDone;
}

ExitCode show(const Value& recipe, const Arguments& arguments, Console& console) {
  const Value* part = at_key(recipe, arguments.package);
  if (!part) return report(console, {no_such_key(recipe, arguments.package)});
  if (console.json) {
    console.out << to_json(*part).dump(2) << '\n';
    return ExitCode::kDone;
  }
  const bool is_scalar = !part->map() && !part->list();
  if (!arguments.package.empty() && !is_scalar) console.out << "# @package " << arguments.package << '\n';
  console.out << (arguments.origin ? yaml_with_origins(*part) : write_yaml(*part));
  return ExitCode::kDone;
}

/// How it is composed, one of the views of --info.
ExitCode info(const std::string& view, const Composer& composer, const DefaultsList& list, Console& console) {
  if (view == "searchpath") {
    console.out << (console.json ? search_path_json(composer.configs()).dump(2) + "\n"
                                 : search_path_text(composer.configs()));
  } else if (view == "defaults") {
    console.out << (console.json ? defaults_json(list).dump(2) + "\n" : defaults_text(list));
  } else {
    console.out << (console.json ? defaults_tree_json(list).dump(2) + "\n" : defaults_tree_text(list));
  }
  return ExitCode::kDone;
}

}  // namespace

ExitCode config_command(const Arguments& arguments, Console& console) {
  if (arguments.subject == "diff") return config_diff_command(arguments, console);
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  if (!arguments.info.empty()) {
    auto composer = open_recipe(arguments, schemas, sources);
    if (!composer) return report(console, composer.errors());
    const auto composition = composer->compose_once();
    if (!composition) return report(console, composition.errors());
    return info(arguments.info, *composer, composition->defaults, console);
  }
  const auto shown = compose_to_show(arguments, schemas, sources);
  if (!shown) return report(console, shown.errors());
  warn(console, shown->composition.warnings);
  if (!arguments.explain.empty())
    return explain(shown->composition, shown->recipe, arguments.explain, schemas, console);
  return show(shown->recipe, arguments, console);
}

}  // namespace runner
