#include "runner/parent/config/compose.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "runner/parent/config/apply_override.h"
#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/hydra_settings.h"
#include "runner/parent/config/interpolation.h"
#include "runner/parent/config/interpolation_parser.h"
#include "runner/parent/config/secret.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

using std::filesystem::path;

void append(Diagnostics& all, const Diagnostics& more) {
  all.insert(all.end(), more.begin(), more.end());
}

bool has_extension(const std::string& recipe) {
  return recipe.ends_with(".yaml") || recipe.ends_with(".yml");
}

/// True if the recipe is given as a file name rather than by its name.
bool is_file_name(const std::string& recipe, const FileSystem& files) {
  return (has_extension(recipe) || recipe.find('/') != std::string::npos) && files.is_file(recipe);
}

Diagnostic recipe_not_found(const std::string& recipe, const ConfigFiles& configs,
                            const FileSystem& files) {
  if (!has_extension(recipe) && files.is_file(recipe))
    return {ErrorCode::kRecipeNotFound,
            {},
            "",
            "there is no recipe '" + recipe + "'; the file with that name has no extension",
            "write './" + recipe + "' for that file, or give it the extension .yaml"};
  const std::vector<std::string> names = configs.options("");
  std::string help = did_you_mean(recipe, names);
  if (help.empty() && !names.empty()) {
    help = "available:";
    for (const std::string& name : names) help += " " + name;
  }
  return {
      ErrorCode::kRecipeNotFound, {}, "", "there is no recipe '" + recipe + "'", std::move(help)};
}

/// Collects the aliases of a config and of the configs that it includes by name; the including
/// config takes precedence. Ignores errors in defaults lists, which build_defaults() reports.
void collect_aliases(ConfigFiles& configs, const ConfigDocument& document,
                     std::vector<const ConfigDocument*>& seen, std::vector<Alias>& aliases,
                     Diagnostics& errors) {
  if (std::ranges::find(seen, &document) != seen.end()) return;
  seen.push_back(&document);
  if (const Value* own = document.contents.find("aliases")) read_aliases(*own, aliases, errors);
  Diagnostics ignored;
  for (const DefaultsItem& item : read_defaults(document, "", ignored)) {
    if (item.kind != DefaultsItem::Kind::kConfig || !item.package.empty()) continue;
    const auto file = configs.find(item.name);
    const ConfigDocument* included = file ? configs.read(*file, errors) : nullptr;
    if (included) collect_aliases(configs, *included, seen, aliases, errors);
  }
}

/// True if `override` changes an entry of the defaults list rather than a value.
bool chooses_config(const Override& override, const ConfigFiles& configs) {
  if (override.edit || (override.value && override.value->map())) return false;
  const bool deletes_path =
      override.kind == OverrideKind::kDelete && override.key.find('/') != std::string::npos;
  return deletes_path || configs.is_group(override.key);
}

/// Splits `overrides` into `choices`, which change the defaults list, and `values`; reports any
/// others as errors.
void divide(std::span<const Override> overrides, const ConfigFiles& configs,
            std::vector<Override>& choices, std::vector<Override>& values, Diagnostics& errors) {
  for (Override override : overrides) {
    const bool is_map = override.value && override.value->map();
    if (chooses_config(override, configs)) {
      choices.push_back(std::move(override));
    } else if (override.package) {
      errors.push_back({ErrorCode::kUnknownGroup, override.key_where, "",
                        "'" + override.where.source->contents +
                            "' looks like a config choice, but there is no " + "config group '" +
                            override.key + "'",
                        did_you_mean(override.key, configs.groups())});
    } else if (override.key.find('/') != std::string::npos && !is_map) {
      errors.push_back({ErrorCode::kUnknownGroup, override.key_where, "",
                        "there is no config group '" + override.key + "'",
                        "to set a value, write dots instead of slashes"});
    } else if (is_foreign_setting(override.key)) {
      errors.push_back(foreign_setting(override));
    } else {
      values.push_back(std::move(override));
    }
  }
}

/// Renames the key `name.other` to `name.own`, if `mapping` is a mapping without `name.own`.
void use_own_name(Value& mapping, const OtherName& name) {
  auto* const map = mapping.map();
  if (!map || mapping.find(name.own)) return;
  const auto found = std::ranges::find(*map, name.other, &Entry::key);
  if (found != map->end()) found->key = name.own;
}

/// Returns `overrides` with Hydra's keys and other names replaced by a recipe's own keys.
std::vector<Override> in_our_terms(std::vector<Override> overrides,
                                   std::span<const OtherName> names) {
  std::erase_if(overrides, [](const Override& override) { return override.key == kSearchPath; });
  for (Override& override : overrides) {
    const bool is_map = override.value && override.value->map();
    if (const auto key = hydra_counterpart(override.key)) override.key = *key;
    // device=X is short for device.select=X.
    if (override.key == "device" && override.value && !is_map &&
        override.kind != OverrideKind::kDelete)
      override.key = "device.select";
    for (const OtherName& name : names) {
      if (override.key == name.mapping && override.value) use_own_name(*override.value, name);
      if (override.key == name.mapping + "." + name.other)
        override.key = name.mapping + "." + name.own;
    }
  }
  return overrides;
}

/// Returns the keys of `part` without its defaults list, nested in mappings at the part's package.
Value packaged(const ConfigPart& part, bool has_schema, std::span<const OtherName> names) {
  Value contents = part.document->contents;
  if (auto* map = contents.map()) {
    std::erase_if(*map, [](const Entry& entry) { return entry.key == "defaults"; });
  }
  if (has_schema && part.package.empty()) {
    Value* device = contents.find("device");
    if (device && !device->map() && !device->is_null()) {
      const Location where = device->where;
      *device = Value{Value::Map{{"select", where, *device}}, where};
    }
    for (const OtherName& name : names) {
      if (Value* const mapping = contents.find(name.mapping)) use_own_name(*mapping, name);
    }
  }
  for (std::string package = part.package; !package.empty();) {
    const std::size_t dot = package.rfind('.');
    const std::string key = dot == package.npos ? package : package.substr(dot + 1);
    const Location where = contents.where;
    contents = Value{Value::Map{{key, where, std::move(contents)}}, where};
    package.erase(dot == package.npos ? 0 : dot);
  }
  return contents;
}

/// Reports every remaining `???` with its dotted path.
void report_mandatory(const Value& value, const std::string& name, const std::string& pointer,
                      Diagnostics& errors) {
  if (is_mandatory(value)) {
    errors.push_back({ErrorCode::kMandatoryValue, value.where, pointer,
                      "'" + name + "' must be given", "set it: " + name + "=VALUE"});
  }
  const auto below = [&](const std::string& key, const Value& child) {
    report_mandatory(child, name.empty() ? key : name + "." + key, pointer_to(pointer, key),
                     errors);
  };
  if (const auto* list = value.list()) {
    for (std::size_t i = 0; i < list->size(); ++i) below(std::to_string(i), (*list)[i]);
  }
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map) below(entry.key, entry.value);
  }
}

/// True if `value` is not known yet: it is or contains an interpolation or a mandatory value.
bool is_open(const Value& value) {
  if (is_mandatory(value) || is_interpolation(value)) return true;
  const auto* list = value.list();
  const auto* map = value.map();
  return (list && std::ranges::any_of(*list, is_open)) ||
         (map && std::ranges::any_of(*map, is_open, [](const Entry& entry) -> const Value& {
            return entry.value;
          }));
}

/// True if the error is caused by a value that is not known yet: the one at its location, or the
/// `kind` of an enclosing mapping.
bool is_about_open(const Diagnostic& error, const Value& recipe) {
  if (is_open(nearest(recipe, error.pointer))) return true;
  for (std::string place = error.pointer; !place.empty();) {
    place.erase(place.rfind('/'));
    const Value* kind = nearest(recipe, place).find("kind");
    if (kind && is_open(*kind)) return true;
  }
  return false;
}

/// True for an error about a missing key or value, which an override that could not be applied may
/// have been meant to set.
bool is_about_missing(const Diagnostic& error) {
  return error.code == ErrorCode::kMandatoryValue || error.code == ErrorCode::kMissingKey ||
         error.code == ErrorCode::kInterpolationUnknown;
}

/// Replaces a sweep with its first listed value; false if there is none.
bool take_first_value(Override& override) {
  if (!override.sweep) return true;
  if (override.sweep->choices.empty()) return false;
  override.value = override.sweep->choices.front();
  override.sweep.reset();
  return true;
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Result<Composer> Composer::open(ComposeRequest request, const FileSystem& files,
                                const RecipeKeys& schemas, Sources& sources) {
  Composer composer(std::move(request), schemas, sources);
  const ComposeRequest& asked = composer.request_;
  constexpr std::size_t kMostOverrides = 10'000;  // applying an override searches all keys
  if (asked.overrides.size() > kMostOverrides) {
    return Diagnostic{ErrorCode::kUsage,
                      {},
                      "",
                      std::to_string(asked.overrides.size()) + " overrides exceed the limit of " +
                          std::to_string(kMostOverrides),
                      "move some of them into a recipe"};
  }
  std::vector<Override> typed;
  for (std::size_t i = 0; i < asked.overrides.size(); ++i) {
    const Result<Override> read =
        parse_override(sources.add("override " + std::to_string(i + 1), asked.overrides[i]));
    if (read) typed.push_back(*read);
    else append(composer.errors_, read.errors());
  }

  const bool by_file = is_file_name(asked.recipe, files);
  std::vector<path> folders = asked.config_folders;
  if (by_file) folders.insert(folders.begin(), path(asked.recipe).parent_path());
  add_hydra_search_path(typed, folders, composer.errors_);
  composer.configs_ = std::make_unique<ConfigFiles>(files, std::move(folders), sources);
  ConfigFiles& configs = *composer.configs_;

  const path without_extension =
      has_extension(asked.recipe) ? path(asked.recipe).replace_extension() : path(asked.recipe);
  composer.name_ = by_file ? without_extension.stem().string() : without_extension.string();
  const std::optional<path> file =
      by_file ? path(asked.recipe).lexically_normal() : configs.find(composer.name_);
  if (!file || !files.is_file(*file)) return recipe_not_found(asked.recipe, configs, files);
  composer.file_ = *file;
  composer.primary_ = configs.read(*file, composer.errors_);
  if (composer.primary_ && !composer.primary_->contents.map()) {
    composer.errors_.push_back(
        {ErrorCode::kYamlSyntax, composer.primary_->contents.where, "",
         "a recipe must be a mapping, not " + describe(composer.primary_->contents),
         "write key: value"});
    composer.primary_ = nullptr;
  }
  std::vector<const ConfigDocument*> seen;
  if (composer.primary_)
    collect_aliases(configs, *composer.primary_, seen, composer.aliases_, composer.errors_);
  const auto has_schema = [](const ConfigDocument* document) {
    return document->contents.find("schema") != nullptr;
  };
  if (std::ranges::any_of(seen, has_schema)) add_common_aliases(composer.aliases_);
  std::erase_if(composer.aliases_, [&](const Alias& alias) {  // a recipe's own key takes precedence
    const auto has_key = [&](const ConfigDocument* document) {
      return document->contents.find(alias.name) != nullptr;
    };
    return !alias.where.source && std::ranges::any_of(seen, has_key);
  });
  for (const Override& override : typed) {
    Result<std::vector<Override>> meant = apply_alias(override, composer.aliases_);
    if (!meant) {
      append(composer.errors_, meant.errors());
      continue;
    }
    composer.typed_.push_back(without_secrets(override, *meant));
    composer.overrides_.insert(composer.overrides_.end(), meant->begin(), meant->end());
  }
  return composer;
}

Result<Composition> Composer::compose(std::span<const Override> overrides) {
  Diagnostics errors = errors_;
  if (!primary_) return errors;
  std::vector<Override> choices, values;
  divide(overrides, *configs_, choices, values, errors);
  Result<DefaultsList> defaults = build_defaults(*configs_, *primary_, name_, choices);
  if (!defaults) {
    append(errors, defaults.errors());
    sort_by_place(errors, sources_);
    return errors;
  }

  Composition result{.file = file_, .unresolved = {Value::Map{}, primary_->contents.where}};
  const bool has_schema = std::ranges::any_of(defaults->parts, [](const ConfigPart& part) {
    return part.package.empty() && part.document->contents.find("schema");
  });
  result.has_schema = has_schema;
  const RecipeKeys& keys = keys_of(result);
  const std::vector<OtherName> names = keys.other_names();
  for (const ConfigPart& part : defaults->parts) {
    result.layers.push_back(packaged(part, has_schema, names));
    hide_secrets(result.layers.back());
    merge(result.unresolved, result.layers.back(), "", errors);
  }
  values.insert(values.begin(), defaults->about_values.begin(), defaults->about_values.end());
  result.defaults = *std::move(defaults);
  const auto keep = [&](Diagnostic& found) {
    (found.severity == Severity::kError ? errors : result.warnings).push_back(std::move(found));
  };
  result.warnings = configs_->warnings();
  result.unresolved.where = primary_->contents.where;  // the first layer may come from another file
  take_hydra_block(result.unresolved, has_schema, result.warnings);
  if (has_schema) {
    values = in_our_terms(std::move(values), names);
  } else {  // nothing runs, so Hydra's run settings have no effect
    std::erase_if(values,
                  [](const Override& override) { return override.key.starts_with("hydra."); });
  }
  result.typed = typed_;
  for (Override& override : values) {
    if (hide_given_again(override, result.unresolved))
      std::ranges::replace(result.typed, override.where.source->contents, override.key + "=***");
  }
  const auto suggested = has_schema ? std::span<const Alias>(aliases_) : std::span<const Alias>();
  for (Diagnostic& found : apply_overrides(result.unresolved, values, keys, suggested)) keep(found);
  if (request_.strict) {
    for (Diagnostic& warning : result.warnings) {
      warning.severity = Severity::kError;
      errors.push_back(std::move(warning));
    }
  }
  if (!errors.empty()) {
    append(errors, other_errors(result));
    sort_by_place(errors, sources_);
    return errors;
  }
  result.overrides = std::move(values);
  return result;
}

const RecipeKeys& Composer::keys_of(const Composition& composition) const {
  return composition.has_schema ? schemas_ : kWithoutSchema;
}

Value Composer::resolved(const Composition& composition, Diagnostics* warnings,
                         Diagnostics& errors) const {
  Diagnostics found;
  if (composition.has_schema) report_mandatory(composition.unresolved, "", "", found);
  const InterpolationSources sources{keys_of(composition), request_.environment, request_.now};
  Value document = resolve_interpolations(composition.unresolved, sources, found);
  for (Diagnostic& each : found) {
    if (request_.strict) each.severity = Severity::kError;
    if (each.severity == Severity::kError) errors.push_back(std::move(each));
    else if (warnings) warnings->push_back(std::move(each));
  }
  return document;
}

Result<Value> Composer::resolve(const Composition& composition, Diagnostics* warnings) const {
  Diagnostics errors;
  Value document = resolved(composition, warnings, errors);
  if (errors.empty()) return document;
  sort_by_place(errors, sources_);
  return errors;
}

Result<Value> Composer::validated(const Composition& composition, Diagnostics* warnings) const {
  Diagnostics errors;
  Value recipe = resolved(composition, warnings, errors);
  const bool is_known = errors.empty();
  if (!recipe.map()) recipe = composition.unresolved;  // an interpolation has failed
  if (is_known || composition.has_schema) {
    for (Diagnostic& error : schemas_.validate(recipe)) {
      if (is_known || !is_about_open(error, recipe)) errors.push_back(std::move(error));
    }
  }
  if (errors.empty()) return recipe;
  if (!is_known) sort_by_place(errors, sources_);
  return errors;
}

/// Returns the schema errors of a composition to which some overrides could not be applied. Leaves
/// out errors about missing keys and values that those overrides may have been meant to set.
Diagnostics Composer::other_errors(const Composition& composition) const {
  if (!composition.has_schema) return {};
  auto recipe = validated(composition);
  Diagnostics errors = recipe ? Diagnostics() : recipe.errors();
  std::erase_if(errors, is_about_missing);
  return errors;
}

Result<Composition> Composer::compose_once() {
  Diagnostics errors;
  for (const Override& override : overrides_) {
    if (override.sweep) errors.push_back(needs_multirun(override));
  }
  if (errors.empty()) return compose(overrides_);
  append(errors, errors_);
  sort_by_place(errors, sources_);
  return errors;
}

std::optional<Composition> compose_leniently(Composer& composer, std::span<const std::string> words,
                                             Sources& sources) {
  std::vector<Override> overrides;
  for (const std::string& word : words) {
    auto override = parse_override(sources.add("override", word));
    if (!override || !take_first_value(*override)) continue;
    auto meant = apply_alias(*override, composer.aliases());
    if (meant) overrides.insert(overrides.end(), meant->begin(), meant->end());
  }
  while (true) {
    auto composition = composer.compose(overrides);
    if (composition) return *std::move(composition);
    if (overrides.empty()) return std::nullopt;
    const auto is_blamed = [&composition](const Override& override) {
      return std::ranges::any_of(composition.errors(), [&override](const Diagnostic& error) {
        return error.where.source && error.where.source == override.where.source;
      });
    };
    // The error may also be in a file that an override includes.
    if (std::erase_if(overrides, is_blamed) == 0) overrides.pop_back();
  }
}

}  // namespace runner
