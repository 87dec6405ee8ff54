#include "runner/parent/cli/prepare.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/compile/compile.h"
#include "runner/parent/compile/network_pixels.h"
#include "runner/parent/compile/option_walk.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/provenance.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/text/printable.h"

namespace runner {

const SchemaSet& shipped_schemas() {
  static const SchemaSet& schemas =
      *new SchemaSet(SchemaSet::open(embedded_schemas()));  // never freed, because freeing it would
                                                            // take time
  return schemas;
}

namespace {

/// Returns the config folders named on the command line, each with its flag.
std::vector<std::pair<std::string, const char*>> named_folders(const NamedRecipe& named) {
  std::vector<std::pair<std::string, const char*>> folders;
  if (!named.config_path.empty()) folders.emplace_back(named.config_path, "--config-path");
  for (const std::string& folder : named.config_dirs) folders.emplace_back(folder, "--config-dir");
  return folders;
}

Diagnostics missing_folders(const NamedRecipe& named) {
  Diagnostics errors;
  for (const auto& [folder, flag] : named_folders(named)) {
    if (real_file_system().is_folder(folder)) continue;
    errors.push_back({ErrorCode::kUsage,
                      {},
                      "",
                      "there is no folder '" + folder + "'",
                      std::string("give an existing folder with ") + flag});
  }
  return errors;
}

}  // namespace

std::vector<std::filesystem::path> recipe_folders(const NamedRecipe& named) {
  std::vector<std::filesystem::path> folders;
  std::vector<std::filesystem::path> roots;
  if (named.config_path.empty()) roots.emplace_back(".");
  for (const auto& [folder, flag] : named_folders(named)) {
    folders.emplace_back(folder);
    roots.emplace_back(folder);
  }
  roots.push_back(share_folder());
  for (const auto& root : roots) {
    folders.push_back(root / "experiments");
    folders.push_back(root / "recipes");
  }
  return folders;
}

Result<Composer> open_recipe(const NamedRecipe& named, const SchemaSet& schemas, Sources& sources,
                             const FileSystem& files) {
  if (auto errors = missing_folders(named); !errors.empty()) return errors;
  return Composer::open({.recipe = named.name,
                         .overrides = named.overrides,
                         .config_folders = recipe_folders(named),
                         .strict = named.strict},
                        files, schemas, sources);
}

Result<Composer> open_without_overrides(NamedRecipe named, const SchemaSet& schemas,
                                        Sources& sources) {
  std::erase_if(named.overrides,
                [](const std::string& word) { return !word.starts_with("hydra.searchpath="); });
  return open_recipe(named, schemas, sources);
}

namespace {

/// Makes relative paths in `value` absolute, except those that come from `file`. `path` is the
/// location of `value` in `recipe`.
void complete_paths(Value& value, std::vector<std::string>& path, const Value& recipe,
                    const std::string& file, const SchemaSet& schemas) {
  if (auto* map = value.map()) {
    for (Entry& entry : *map) {
      path.push_back(entry.key);
      complete_paths(entry.value, path, recipe, file, schemas);
      path.pop_back();
    }
  }
  const std::string* text = value.is_default ? nullptr : value.reveal();
  if (!text || text->empty() || text->starts_with("hf:") || !value.where.source ||
      value.where.source->name == file)
    return;
  if (schemas.choices(recipe, path).is_path)
    value.data = std::filesystem::absolute(with_home(*text)).lexically_normal().string();
}

/// Returns the folder against which relative paths in a recorded recipe are resolved; empty if it
/// is the current folder. Makes the paths typed on this command line absolute, since they are
/// relative to the current folder.
std::filesystem::path resolve_paths(Value& recipe, const Composer& composer,
                                    const SchemaSet& schemas) {
  const auto folder = working_folder_of(composer.file());
  std::error_code error;
  if (!folder || std::filesystem::equivalent(*folder, std::filesystem::current_path(), error))
    return {};
  const Value before = recipe;
  std::vector<std::string> path;
  complete_paths(recipe, path, before, composer.file().string(), schemas);
  return *folder;
}

/// A recipe, and the folder against which its relative paths are resolved; empty: the current one.
struct PlacedRecipe {
  Recipe recipe;
  std::filesystem::path folder;
};

/// Returns the resolved and validated recipe of `composition`, adding warnings to `composition`.
Result<PlacedRecipe> recipe_of(const Composer& composer, Composition& composition,
                               const SchemaSet& schemas, Sources& sources) {
  auto valid = composer.validated(composition, &composition.warnings);
  if (!valid) return valid.errors();
  std::filesystem::path folder = resolve_paths(*valid, composer, schemas);
  auto recipe = make_recipe(*std::move(valid), schemas, &sources, folder);
  if (!recipe) return recipe.errors();
  return PlacedRecipe{*std::move(recipe), std::move(folder)};
}

}  // namespace

Result<ShownConfig> compose_to_show(const NamedRecipe& named, bool resolve,
                                    const SchemaSet& schemas, Sources& sources) {
  auto composer = open_recipe(named, schemas, sources);
  if (!composer) return composer.errors();
  auto composition = composer->compose_once();
  if (!composition) return composition.errors();
  ShownConfig shown{.composition = *std::move(composition)};
  if (!resolve) {
    shown.recipe = shown.composition.unresolved;
  } else if (shown.composition.has_schema) {
    auto placed = recipe_of(*composer, shown.composition, schemas, sources);
    if (!placed) return placed.errors();
    shown.recipe = std::move(placed->recipe.resolved);
  } else {
    auto resolved = composer->resolve(shown.composition, &shown.composition.warnings);
    if (!resolved) return resolved.errors();
    shown.recipe = *std::move(resolved);
  }
  return shown;
}

Diagnostics without_effect(std::span<const Override> overrides, const Recipe& recipe,
                           const Graph& graph, const SchemaSet& schemas) {
  Diagnostics found = overruled_overrides(overrides);
  std::ranges::move(options_without_effect(recipe.resolved, graph, schemas),
                    std::back_inserter(found));
  return found;
}

namespace {

void warn_of_unused_params(const std::string& recipe, Composition& composition) {
  const Value* params = at_key(composition.unresolved, "sweep.params");
  if (!params) return;
  composition.warnings.push_back({ErrorCode::kNeedsMultirun,
                                  params->where,
                                  "/sweep/params",
                                  "sweep.params is not used by a single run",
                                  "for several runs, use `retort sweep " + recipe + "`",
                                  {},
                                  Severity::kWarning});
}

/// Composes, validates and compiles a recipe. A broken rule is not an error here: the broken rules
/// are part of the result.
Result<PreparedRecipe> prepare_by_any_rules(const NamedRecipe& named, const SchemaSet& schemas,
                                            Sources& sources,
                                            const FileSystem& files = real_file_system()) {
  auto composer = open_recipe(named, schemas, sources, files);
  if (!composer) return composer.errors();
  auto composition = composer->compose_once();
  if (!composition) return composition.errors();
  warn_of_unused_params(named.name, *composition);
  auto placed = recipe_of(*composer, *composition, schemas, sources);
  if (!placed) return placed.errors();
  auto& [recipe, folder] = *placed;
  // The folder of the recorded run already exists.
  const bool is_recorded = working_folder_of(composer->file()).has_value();
  if (is_recorded && writes({}, composition->overrides, "run.dir").empty()) recipe.run_dir.clear();
  auto graph = compile_recorded(recipe, schemas);
  if (!graph) return graph.errors();
  graph->working_folder = folder.string();
  if (!is_recorded) {
    Diagnostics idle = without_effect(composition->overrides, recipe, *graph, schemas);
    if (named.strict && !idle.empty()) {
      for (Diagnostic& one : idle) one.severity = Severity::kError;
      return idle;
    }
    std::ranges::move(idle, std::back_inserter(composition->warnings));
  }
  Diagnostics broken_rules = rules_broken_by(*graph, schemas);
  return PreparedRecipe{*std::move(composition), std::move(recipe), *std::move(graph),
                        std::move(broken_rules)};
}

constexpr const char* kTextFile = "model.yaml";

/// The file system of this machine, with one additional file in memory.
class WithText final : public FileSystem {
 public:
  explicit WithText(const std::string& text) : text_(text) {}

  std::optional<std::string> read(const std::filesystem::path& path,
                                  std::size_t limit) const override {
    return path == kTextFile ? text_ : real_file_system().read(path, limit);
  }
  bool is_file(const std::filesystem::path& path) const override {
    return path == kTextFile || real_file_system().is_file(path);
  }
  bool is_folder(const std::filesystem::path& path) const override {
    return real_file_system().is_folder(path);
  }
  std::vector<std::string> list(const std::filesystem::path& folder) const override {
    return real_file_system().list(folder);
  }

 private:
  const std::string& text_;
};

/// Removes the errors that are also in `known` from `errors`.
void remove_known(Diagnostics& errors, const Diagnostics& known) {
  std::erase_if(errors, [&](const Diagnostic& error) {
    return std::ranges::any_of(known, [&](const Diagnostic& one) {
      return one.pointer == error.pointer && one.message == error.message;
    });
  });
}

}  // namespace

Result<PreparedRecipe> prepare(const NamedRecipe& named, const SchemaSet& schemas,
                               Sources& sources) {
  auto prepared = prepare_by_any_rules(named, schemas, sources);
  if (!prepared) return prepared;
  if (!prepared->broken_rules.empty()) return std::move(prepared->broken_rules);
  auto part = part_to_run(std::move(prepared->graph), prepared->recipe);
  if (!part) return part.errors();
  prepared->graph = *std::move(part);
  return prepared;
}

Result<PreparedRecipe> prepare_recorded(const std::filesystem::path& recipe,
                                        std::vector<std::string> overrides,
                                        const SchemaSet& schemas, Sources& sources) {
  NamedRecipe named;
  named.name = recipe.string();
  named.overrides = std::move(overrides);
  auto prepared = prepare_by_any_rules(named, schemas, sources);
  if (prepared && chooses_ranks(prepared->recipe.resolved)) {
    return Diagnostic{ErrorCode::kOptionConflict,
                      at_key(prepared->recipe.resolved, "device.count")->where, "/device/count",
                      "device.count: auto is for new runs, and this run already has a record",
                      "set a number, such as device.count=2"};
  }
  if (prepared && !named.overrides.empty()) {
    Diagnostics errors;
    for (const PixelOption& one : pixels_from_network(prepared->recipe.resolved))
      errors.push_back({ErrorCode::kOptionConflict, one.value->where, one.pointer(),
                        one.key() + ": auto is for new runs, and this run already has a record",
                        "leave it out to keep the recorded value, or set another value"});
    if (!errors.empty()) return errors;
  }
  if (!prepared || prepared->broken_rules.empty() || named.overrides.empty()) return prepared;
  named.overrides.clear();
  const auto before = prepare_by_any_rules(named, schemas, sources);
  if (!before) return before.errors();
  Diagnostics errors = prepared->broken_rules;
  remove_known(errors, before->broken_rules);
  if (!errors.empty()) return errors;
  return prepared;
}

void show_notice(const Value& resolved, Console& console) {
  const std::string notice = notice_of(resolved);
  if (!notice.empty() && !console.is_quiet())
    console.err << "notice: " << printable(notice) << '\n';
}

Result<PreparedRecipe> prepare_text(const std::string& text, std::vector<std::string> overrides,
                                    const SchemaSet& schemas, Sources& sources) {
  NamedRecipe named;
  named.name = kTextFile;
  named.overrides = std::move(overrides);
  return prepare_by_any_rules(named, schemas, sources, WithText(text));
}

void print_run(Console& console, nlohmann::ordered_json summary, const Diagnostics& found) {
  summary.erase("diagnostics");
  Diagnostics errors, warnings;
  for (const Diagnostic& one : found)
    (one.severity == Severity::kError ? errors : warnings).push_back(one);
  warn(console, warnings);
  print_result(console, "run/1", summary, errors);
}

RunSurroundings surroundings(Console& console, const WorkerCommand& worker, NextGpu next_gpu,
                             Storage& storage) {
  RunSurroundings here{.worker = worker,
                       .results = console.out,
                       .err = console.err,
                       .display = standard_error_display(console.verbosity),
                       .node_index = node_index_folder(),
                       .next_gpu = std::move(next_gpu),
                       .storage = storage};
  if (console.json) {
    here.on_end = [&console](const nlohmann::ordered_json& summary, const Diagnostics& found) {
      print_run(console, summary, found);
    };
  }
  return here;
}

}  // namespace runner
