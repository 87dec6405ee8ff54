#pragma once

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/compose.h"
#include "runner/parent/run/run.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The schemas built into this program; each is read once, on first use. A test checks that they
/// load.
const SchemaSet& shipped_schemas();

/// The folders that hold recipes and their groups, nearest first: --config-path and each
/// --config-dir, then experiments/ and recipes/ of these, or of the working directory, and those
/// that are shipped.
std::vector<std::filesystem::path> recipe_folders(const NamedRecipe& named);

/// Opens the recipe that the command line names for composing. Borrows `schemas` and `sources`.
Result<Composer> open_recipe(const NamedRecipe& named, const SchemaSet& schemas, Sources& sources,
                             const FileSystem& files = real_file_system());

/// Like open_recipe(), but ignores all overrides except those that set the config search path. Used
/// by compose_leniently().
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

/// A recipe on its way from text to run: composed, resolved, validated, compiled. For a recorded
/// recipe, run.dir counts only if an override sets it.
struct PreparedRecipe {
  Composition composition;
  Recipe recipe;
  Graph graph;
  Diagnostics broken_rules =
      {};  ///< for a recorded recipe: the rules of this version that it breaks
};
Result<PreparedRecipe> prepare(const NamedRecipe& named, const SchemaSet& schemas,
                               Sources& sources);

/// The same for the recipe in the file `recipe` of a run's record, with overrides appended. The
/// version that ran it may have had fewer rules, so breaking one is an error only if an override
/// does it.
Result<PreparedRecipe> prepare_recorded(const std::filesystem::path& recipe,
                                        std::vector<std::string> overrides,
                                        const SchemaSet& schemas, Sources& sources);

/// Warns about options and overrides that have no effect (options_without_effect(),
/// overruled_overrides()).
Diagnostics without_effect(std::span<const Override> overrides, const Recipe& recipe,
                           const Graph& graph, const SchemaSet& schemas);

/// Shows the recipe's notice to users (notice_of()), if it has one and the output is not quiet.
void show_notice(const Value& resolved, Console& console);

/// The same for a recipe that is not in a file: its complete text, without a defaults list.
Result<PreparedRecipe> prepare_text(const std::string& text, std::vector<std::string> overrides,
                                    const SchemaSet& schemas, Sources& sources);

/// Prints a run's summary as JSON, with `found` as its errors and warnings.
void print_run(Console& console, nlohmann::ordered_json summary, const Diagnostics& found = {});

/// The surroundings for a verb: what it prints to, its worker, and where a run continues when a GPU
/// is out of memory. Borrows `console`.
RunSurroundings surroundings(Console& console, const WorkerCommand& worker, NextGpu next_gpu,
                             Storage& storage = disk());

}  // namespace runner
