#include "runner/parent/cli/prepare.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/compile/compile.h"
#include "runner/parent/compile/option_walk.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/provenance.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/parent/schema/schema_path.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/text/printable.h"

namespace runner {

const SchemaSet& shipped_schemas() {
  static const SchemaSet& schemas =
      *new SchemaSet(SchemaSet::open(embedded_schemas()));  // never freed, since that would take
                                                            // time
  return schemas;
}

std::vector<std::filesystem::path> search_path(const NamedRecipe& named) {
  std::vector<std::filesystem::path> roots = {named.config_path.empty() ? "." : named.config_path};
  roots.insert(roots.end(), named.config_dirs.begin(), named.config_dirs.end());
  roots.push_back(share_folder());
  return roots;
}

namespace {

/// The config folders that the command line names; those that do not exist are added to `errors`.
std::vector<std::filesystem::path> config_folders(const NamedRecipe& named, Diagnostics& errors) {
  std::vector<std::filesystem::path> folders;
  const auto add = [&](const std::string& folder, const std::string& flag) {
    folders.push_back(folder);
    if (!real_file_system().is_folder(folder))
      errors.push_back({ErrorCode::kUsage,
                        {},
                        "",
                        "there is no folder '" + folder + "'",
                        "give an existing folder with " + flag});
  };
  if (!named.config_path.empty()) add(named.config_path, "--config-path");
  for (const std::string& folder : named.config_dirs) add(folder, "--config-dir");
  return folders;
}

}  // namespace

std::vector<std::filesystem::path> recipe_folders(const NamedRecipe& named) {
  Diagnostics ignored;
  std::vector<std::filesystem::path> folders = config_folders(named, ignored);
  for (const auto& root : search_path(named)) {
    folders.push_back(root / "experiments");
    folders.push_back(root / "recipes");
  }
  return folders;
}

Result<Composer> open_recipe(const NamedRecipe& named, const SchemaSet& schemas, Sources& sources,
                             const FileSystem& files) {
  const Declared declared = [&schemas](const Value& recipe, std::span<const std::string> path) {
    return schemas.declared(recipe, path);
  };
  Diagnostics errors;
  ComposeRequest request{
      .recipe = named.name, .overrides = named.overrides, .search_path = search_path(named)};
  request.declared_keys = [&schemas](const Value& recipe, std::span<const std::string> path) {
    return schemas.declared_keys(recipe, path);
  };
  request.may_add = [&schemas](const Value& recipe, std::span<const std::string> path) {
    return schemas.may_add(recipe, path);
  };
  request.other_kinds = [&schemas](const Value& recipe, std::span<const std::string> path) {
    const SchemaNode* const schema = schemas.node("recipe.schema.json");
    return schema ? other_kinds_with(*schema, recipe, path) : std::vector<std::string>();
  };
  request.validate = [&schemas](Value recipe) { return schemas.validate(recipe); };
  request.strict = named.strict;
  request.config_folders = config_folders(named, errors);
  if (!errors.empty()) return errors;
  return Composer::open(std::move(request), files, declared, sources);
}

Result<Composer> open_without_overrides(NamedRecipe named, const SchemaSet& schemas,
                                        Sources& sources) {
  std::erase_if(named.overrides,
                [](const std::string& word) { return !word.starts_with("hydra.searchpath="); });
  return open_recipe(named, schemas, sources);
}

namespace {

/// Makes the relative paths in `value`, at `path` of `recipe`, absolute unless they come from
/// `file`.
void complete_paths(Value& value, std::vector<std::string>& path, const Value& recipe,
                    const std::string& file, const SchemaSet& schemas) {
  if (auto* map = value.map()) {
    for (Entry& entry : *map) {
      path.push_back(entry.key);
      complete_paths(entry.value, path, recipe, file, schemas);
      path.pop_back();
    }
  }
  const std::string* text = value.text();
  if (!text || text->empty() || text->starts_with("hf:") || !value.where.source ||
      value.where.source->name == file)
    return;
  if (schemas.choices(recipe, path).is_path)
    value.data = std::filesystem::absolute(with_home(*text)).lexically_normal().string();
}

/// If a recorded recipe is used from another folder, returns the folder that its relative paths
/// refer to, else empty. Paths typed on this command line refer to the current folder: they become
/// absolute.
std::filesystem::path resolve_paths(Value& resolved, const Composer& composer,
                                    const SchemaSet& schemas) {
  const auto folder = working_folder_of(composer.file());
  std::error_code error;
  if (!folder || std::filesystem::equivalent(*folder, std::filesystem::current_path(), error))
    return {};
  const Value before = resolved;
  std::vector<std::string> path;
  complete_paths(resolved, path, before, composer.file().string(), schemas);
  return *folder;
}

}  // namespace

Result<ShownConfig> compose_to_show(const NamedRecipe& named, bool resolve,
                                    const SchemaSet& schemas, Sources& sources) {
  auto composer = open_recipe(named, schemas, sources);
  if (!composer) return composer.errors();
  auto composition = composer->compose_once();
  if (!composition) return composition.errors();
  ShownConfig shown{.composition = *std::move(composition)};
  shown.recipe = shown.composition.unresolved;
  if (!resolve) return shown;
  auto resolved = composer->resolve(shown.composition, &shown.composition.warnings);
  if (!resolved) return resolved.errors();
  shown.recipe = *std::move(resolved);
  if (!shown.composition.has_schema) return shown;
  const std::filesystem::path folder = resolve_paths(shown.recipe, *composer, schemas);
  auto recipe = make_recipe(shown.recipe, schemas, &sources, folder);
  if (!recipe) return recipe.errors();
  shown.recipe = std::move(recipe->resolved);
  return shown;
}

namespace {}  // namespace

Diagnostics without_effect(std::span<const Override> overrides, const Recipe& recipe,
                           const Graph& graph, const SchemaSet& schemas) {
  Diagnostics found = overruled_overrides(overrides);
  std::ranges::move(options_without_effect(recipe.resolved, graph, schemas),
                    std::back_inserter(found));
  return found;
}

namespace {

/// The rules that it breaks are in the result.
Result<PreparedRecipe> prepare_by_any_rules(const NamedRecipe& named, const SchemaSet& schemas,
                                            Sources& sources,
                                            const FileSystem& files = real_file_system()) {
  auto composer = open_recipe(named, schemas, sources, files);
  if (!composer) return composer.errors();
  auto composition = composer->compose_once();
  if (!composition) return composition.errors();
  if (const Value* params = at_key(composition->unresolved, "sweep.params")) {
    composition->warnings.push_back({ErrorCode::kNeedsMultirun,
                                     params->where,
                                     "/sweep/params",
                                     "sweep.params is not used: this is a single run",
                                     "for several runs use `retort sweep " + named.name + "`",
                                     {},
                                     Severity::kWarning});
  }
  auto resolved = composer->resolve(*composition, &composition->warnings);
  if (!resolved) return resolved.errors();
  const std::filesystem::path folder = resolve_paths(*resolved, *composer, schemas);
  auto recipe = make_recipe(*std::move(resolved), schemas, &sources, folder);
  if (!recipe) return recipe.errors();
  // The recorded run's folder is already taken.
  const bool is_recorded = working_folder_of(composer->file()).has_value();
  if (is_recorded && writes({}, composition->overrides, "run.dir").empty()) recipe->run_dir.clear();
  auto graph = compile_recorded(*recipe, schemas);
  if (!graph) return graph.errors();
  graph->working_folder = folder.string();
  if (!is_recorded) {
    Diagnostics idle = without_effect(composition->overrides, *recipe, *graph, schemas);
    if (named.strict && !idle.empty()) {
      for (Diagnostic& one : idle) one.severity = Severity::kError;
      return idle;
    }
    std::ranges::move(idle, std::back_inserter(composition->warnings));
  }
  Diagnostics broken_rules = rules_broken_by(*graph, schemas);
  return PreparedRecipe{std::move(*composition), std::move(*recipe), std::move(*graph),
                        std::move(broken_rules)};
}

constexpr const char* kTextFile = "model.yaml";

/// The disk, with one additional file that is not on it.
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

/// Removes from `errors` those that `known` holds, which are not new.
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
  if (prepared && !prepared->broken_rules.empty()) return std::move(prepared->broken_rules);
  return prepared;
}

Result<PreparedRecipe> prepare_recorded(const std::filesystem::path& recipe,
                                        std::vector<std::string> overrides,
                                        const SchemaSet& schemas, Sources& sources) {
  NamedRecipe named;
  named.name = recipe.string();
  named.overrides = std::move(overrides);
  auto prepared = prepare_by_any_rules(named, schemas, sources);
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
