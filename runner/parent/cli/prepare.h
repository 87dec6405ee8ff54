#pragma once

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/compose.h"
#include "runner/parent/run/run.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Returns the schemas built into this program. Each is read on first use. A test checks that they
/// all load.
const SchemaSet& shipped_schemas();

/// Returns the folders that are searched for recipes and groups, in this order: --config-path and
/// each --config-dir; then the subfolders experiments/ and recipes/ of the working directory
/// (unless --config-path is given), of those folders, and of the files shipped with the program.
std::vector<std::filesystem::path> recipe_folders(const NamedRecipe& named);

/// Opens the recipe named on the command line for composing. Borrows `schemas`, `sources` and
/// `files`.
Result<Composer> open_recipe(const NamedRecipe& named, const SchemaSet& schemas, Sources& sources,
                             const FileSystem& files = real_file_system());

/// Like open_recipe(), but ignores all overrides except those that set the config search path.
/// Intended for compose_leniently().
Result<Composer> open_without_overrides(NamedRecipe named, const SchemaSet& schemas,
                                        Sources& sources);

/// A recipe as `retort config` shows it: the composition as written or, with `resolve`, with
/// interpolations resolved and, if a schema applies, with every default filled in.
struct ShownConfig {
  Composition composition;
  Value recipe = {};
};
Result<ShownConfig> compose_to_show(const NamedRecipe& named, bool resolve,
                                    const SchemaSet& schemas, Sources& sources);

/// A recipe that is ready to run: composed, resolved, validated and compiled. For a recorded
/// recipe, run.dir is empty unless an override sets it.
struct PreparedRecipe {
  Composition composition;
  Recipe recipe;
  Graph graph;
  Diagnostics broken_rules =
      {};  ///< for a recorded recipe: the rules of this version that the recipe breaks
};
/// Prepares the recipe given on the command line. Breaking a rule is an error.
Result<PreparedRecipe> prepare(const NamedRecipe& named, const SchemaSet& schemas,
                               Sources& sources);

/// Like prepare(), for the recipe in the file `recipe` of a run's record, with `overrides`
/// appended. The version that ran it may have had fewer rules, so a broken rule is an error only if
/// an override breaks it.
Result<PreparedRecipe> prepare_recorded(const std::filesystem::path& recipe,
                                        std::vector<std::string> overrides,
                                        const SchemaSet& schemas, Sources& sources);

/// Returns warnings about options and overrides that have no effect (options_without_effect(),
/// overruled_overrides()).
Diagnostics without_effect(std::span<const Override> overrides, const Recipe& recipe,
                           const Graph& graph, const SchemaSet& schemas);

/// Prints the recipe's notice to users (notice_of()), if it has one, unless the output is quiet.
void show_notice(const Value& resolved, Console& console);

/// Like prepare(), for a recipe that is not in a file. `text` is the complete recipe and has no
/// defaults list.
Result<PreparedRecipe> prepare_text(const std::string& text, std::vector<std::string> overrides,
                                    const SchemaSet& schemas, Sources& sources);

/// Prints a run's summary as JSON, with `found` as its errors and warnings.
void print_run(Console& console, nlohmann::ordered_json summary, const Diagnostics& found = {});

/// Returns the surroundings for a verb that starts a run: its streams, worker and storage, and how
/// to get another GPU when one runs out of memory. Borrows `console` and `storage`.
RunSurroundings surroundings(Console& console, const WorkerCommand& worker, NextGpu next_gpu,
                             Storage& storage = disk());

}  // namespace runner
