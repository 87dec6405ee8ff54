#pragma once

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/compose.h"
#include "runner/parent/run/run.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The schemas built into this program; each is read when it is first asked for, once. They are
/// checked by a test, so they load.
const SchemaSet& shipped_schemas();

/// Where recipes are looked for, nearest first: the working directory, each --config-dir, what is
/// shipped.
std::vector<std::filesystem::path> search_path(const NamedRecipe& named);

/// The folders of the search path that hold recipes and their groups, nearest first.
std::vector<std::filesystem::path> recipe_folders(const NamedRecipe& named);

/// The recipe that the command line names, opened for composing. Borrows `schemas` and `sources`.
Result<Composer> open_recipe(const NamedRecipe& named, const SchemaSet& schemas, Sources& sources,
                             const FileSystem& files = real_file_system());

/// The same without overrides, but for those that say where configs are: for compose_leniently().
Result<Composer> open_without_overrides(NamedRecipe named, const SchemaSet& schemas,
                                        Sources& sources);

/// What `retort config` shows: the composition as written, or with `resolve` every interpolation
/// and, where a schema applies, every default filled in.
struct ShownConfig {
  Composition composition;
  Value recipe = {};
};
Result<ShownConfig> compose_to_show(const NamedRecipe& named, bool resolve,
                                    const SchemaSet& schemas, Sources& sources);

/// A recipe on its way from text to run: composed, resolved, validated, compiled. Of a recorded one
/// run.dir counts only where an override says it.
struct PreparedRecipe {
  Composition composition;
  Recipe recipe;
  Graph graph;
  Diagnostics broken_rules =
      {};  ///< of a recorded one: what it breaks of the rules that this version has
};
Result<PreparedRecipe> prepare(const NamedRecipe& named, const SchemaSet& schemas,
                               Sources& sources);

/// The same for the recipe in the file `recipe` of a run's record, with overrides appended. The
/// version that has run it may have had fewer rules: it is an error only to break one by an
/// override.
Result<PreparedRecipe> prepare_recorded(const std::filesystem::path& recipe,
                                        std::vector<std::string> overrides,
                                        const SchemaSet& schemas, Sources& sources);

/// Warnings of the options and overrides that do nothing (no_effect.h, overruled.h).
Diagnostics without_effect(std::span<const Override> overrides, const Recipe& recipe,
                           const Graph& graph, const SchemaSet& schemas);

/// Shows what the recipe wants to be known by everybody (notice_of()), where there is something and
/// it is not to be quiet.
void show_notice(const Value& resolved, Console& console);

/// The same for a recipe that is in no file: its text, whole and without a defaults list.
Result<PreparedRecipe> prepare_text(const std::string& text, std::vector<std::string> overrides,
                                    const SchemaSet& schemas, Sources& sources);

/// Prints a run's summary as JSON, what was found beside it as errors and warnings.
void print_run(Console& console, nlohmann::ordered_json summary, const Diagnostics& found = {});

/// Those of a verb: what it prints to, its worker, and where it goes on that one GPU has no memory
/// left for. Borrows `console`.
RunSurroundings surroundings(Console& console, const WorkerCommand& worker, NextGpu next_gpu,
                             Storage& storage = disk());

}  // namespace runner
