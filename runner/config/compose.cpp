#include "runner/config/compose.h"

#include <algorithm>
#include <cstdlib>

#include "runner/config/alias.h"
#include "runner/config/apply_override.h"
#include "runner/config/config_files.h"
#include "runner/config/defaults_item.h"
#include "runner/config/defaults_list.h"
#include "runner/config/interpolation.h"
#include "runner/config/merge.h"
#include "runner/suggest.h"

namespace runner {
namespace {

using std::filesystem::path;

void add(Diagnostics& all, const Diagnostics& more) { all.insert(all.end(), more.begin(), more.end()); }

std::vector<path> config_folders(const ComposeRequest& request) {
  std::vector<path> folders;
  for (const path& root : request.search_path) {
    folders.push_back(root / "experiments");
    folders.push_back(root / "recipes");
  }
  return folders;
}

/// Is the recipe given as a file rather than by name?
bool is_file_name(const std::string& recipe, const FileSystem& files) {
  if (recipe.ends_with(".yaml") || recipe.ends_with(".yml")) return true;
  return recipe.find('/') != std::string::npos && files.is_file(recipe);
}

Diagnostic recipe_not_found(const std::string& recipe, const ConfigFiles& configs) {
  const std::vector<std::string> names = configs.options("");
  std::string help = did_you_mean(recipe, names);
  if (help.empty() && !names.empty()) {
    help = "there are:";
    for (const std::string& name : names) help += " " + name;
  }
  return {ErrorCode::kRecipeNotFound, {}, "", "there is no recipe '" + recipe + "'", std::move(help)};
}

/// The aliases of a config and of those it includes by name; the including one's win. Errors other than bad aliases
/// are left to the defaults list, which reads the same files again.
void collect_aliases(ConfigFiles& configs, const ConfigDocument& document, std::vector<const ConfigDocument*>& seen,
                     std::vector<Alias>& aliases, Diagnostics& errors) {
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

std::vector<Override> read_overrides(const ComposeRequest& request, const std::vector<Alias>& aliases, Sources& sources,
                                     Diagnostics& errors) {
  std::vector<Override> result;
  for (std::size_t i = 0; i < request.overrides.size(); ++i) {
    const SourceText& source = sources.add("override " + std::to_string(i + 1), request.overrides[i]);
    const Result<Override> read = parse_override(source);
    if (!read) {
      add(errors, read.errors());
      continue;
    }
    if (read->sweep) {
      errors.push_back(needs_multirun(*read));
      continue;
    }
    if (read->edit) {
      errors.push_back({ErrorCode::kNotBuiltYet, read->where, "",
                        "'" + read->value_text + "' is not part of this version", "write the whole value"});
      continue;
    }
    Result<std::vector<Override>> meant = apply_alias(*read, aliases);
    if (meant) result.insert(result.end(), meant->begin(), meant->end());
    else add(errors, meant.errors());
  }
  return result;
}

/// Is it about an entry of the defaults list, not about a value?
bool chooses_group(const Override& override, const ConfigFiles& configs) {
  return !(override.value && override.value->map()) && configs.is_group(override.key);
}

/// Divides overrides into those of the defaults list and those of values; refuses what is neither.
void divide(std::vector<Override> overrides, const ConfigFiles& configs, std::vector<Override>& choices,
            std::vector<Override>& values, Diagnostics& errors) {
  for (Override& override : overrides) {
    const bool is_group = chooses_group(override, configs);
    if (override.package) {
      errors.push_back({ErrorCode::kNotBuiltYet, override.package_where, "",
                        "a package (@) in an override is not part of this version", "write the whole key: a.b=value"});
    } else if (is_group) {
      choices.push_back(std::move(override));
    } else if (override.key.find('/') != std::string::npos && !(override.value && override.value->map())) {
      errors.push_back({ErrorCode::kUnknownGroup, override.key_where, "",
                        "there is no config group '" + override.key + "'", "a value is set with dots"});
    } else {
      // device=X is short for device.select=X.
      if (override.key == "device" && override.value && !override.value->map() &&
          override.kind != OverrideKind::kDelete) {
        override.key = "device.select";
      }
      values.push_back(std::move(override));
    }
  }
}

/// The part's keys where its package wants them, without its defaults list.
Value packaged(const ConfigPart& part) {
  Value contents = part.document->contents;
  std::erase_if(*contents.map(), [](const Entry& entry) { return entry.key == "defaults"; });
  if (part.package.empty()) {
    Value* device = contents.find("device");
    if (device && !device->map() && !device->is_null()) {
      const Location where = device->where;
      *device = Value{Value::Map{{"select", where, *device}}, where};
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

/// Every `???` that is left, by its dotted path.
void report_mandatory(const Value& value, const std::string& name, const std::string& pointer, Diagnostics& errors) {
  if (is_mandatory(value)) {
    errors.push_back({ErrorCode::kMandatoryValue, value.where, pointer, "'" + name + "' must be given",
                      "give it: " + name + "=VALUE"});
  }
  const auto below = [&](const std::string& key, const Value& child) {
    report_mandatory(child, name.empty() ? key : name + "." + key, pointer_to(pointer, key), errors);
  };
  if (const auto* list = value.list()) {
    for (std::size_t i = 0; i < list->size(); ++i) below(std::to_string(i), (*list)[i]);
  }
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map) below(entry.key, entry.value);
  }
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Result<Composition> compose(const ComposeRequest& request, const FileSystem& files, const Declared& declared,
                            Sources& sources) {
  Diagnostics errors;
  const bool by_file = is_file_name(request.recipe, files);
  std::vector<path> folders = config_folders(request);
  if (by_file) folders.insert(folders.begin(), path(request.recipe).parent_path());
  ConfigFiles configs(files, std::move(folders), sources);

  const std::optional<path> file = by_file ? path(request.recipe).lexically_normal() : configs.find(request.recipe);
  if (!file || !files.is_file(*file)) return recipe_not_found(request.recipe, configs);
  const ConfigDocument* primary = configs.read(*file, errors);

  std::vector<Alias> aliases;
  std::vector<const ConfigDocument*> seen;
  if (primary) collect_aliases(configs, *primary, seen, aliases, errors);
  std::vector<Override> choices, values;
  divide(read_overrides(request, aliases, sources, errors), configs, choices, values, errors);
  if (!primary) return errors;

  const Result<std::vector<ConfigPart>> parts = build_defaults(configs, *primary, choices);
  if (!parts) add(errors, parts.errors());
  if (!errors.empty()) return errors;

  Composition result{*file, {Value::Map{}, primary->contents.where}, {}, configs.warnings(), {}, values};
  for (const ConfigPart& part : *parts) {
    result.layers.push_back(packaged(part));
    merge(result.unresolved, result.layers.back(), "", errors);
  }
  for (Diagnostic& found : apply_overrides(result.unresolved, values, declared, request.declared_keys)) {
    (found.severity == Severity::kError ? errors : result.warnings).push_back(std::move(found));
  }
  report_mandatory(result.unresolved, "", "", errors);
  result.recipe = resolve_interpolations(result.unresolved, declared, request.environment, errors);
  if (!errors.empty()) {
    sort_by_place(errors, sources);
    return errors;
  }
  return result;
}

}  // namespace runner
