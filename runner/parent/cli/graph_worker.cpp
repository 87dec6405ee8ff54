#include "runner/parent/cli/graph_worker.h"

#include <algorithm>
#include <utility>

#include "runner/parent/compile/compile.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/python/allowed_code.h"
#include "runner/parent/python/python_entry.h"
#include "runner/parent/python/python_host.h"
#include "runner/parent/python/trusted_hooks.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {

namespace fs = std::filesystem;

namespace {

Diagnostics allow_code_of(Graph& graph, const std::vector<PlacedEntry>& entries,
                          const Value& recipe, const PythonSurroundings& here) {
  const auto trusted = TrustedCode::read(here.trusted);
  if (!trusted) return trusted.errors();
  return allow_code(graph, entries,
                    {.working = graph.working_folder, .recipe = recipe_folder(recipe)}, *trusted);
}

}  // namespace

fs::path recipe_folder(const Value& recipe) {
  if (!recipe.where.source) return {};
  const fs::path file = fs::absolute(recipe.where.source->name).lexically_normal();
  if (file.filename() == RunRecord::kRecipe && run_of(file))
    return code_folder_of(file).value_or(fs::path());
  const SweepLayout sweep(file.parent_path().parent_path());
  std::error_code unknown;
  if (file.parent_path() == sweep.recipes() && fs::exists(sweep.journal(), unknown)) {
    const auto plan = SweepJournal::read(sweep.folder());
    return plan ? plan->recipe_folder : fs::path();
  }
  return file.parent_path();
}

Result<WorkerCommand> worker_for(Graph& graph, const Value& recipe, const SchemaSet& schemas,
                                 const LogFlags& log, const PythonSurroundings& here) {
  const std::vector<PlacedEntry> entries = python_entries(graph, schemas);
  if (entries.empty()) return log.worker();
  if (Diagnostics errors = allow_code_of(graph, entries, recipe, here); !errors.empty())
    return errors;
  const auto interpreter = find_interpreter(recipe, graph.working_folder, here.variable);
  if (!interpreter) return interpreter.errors();
  const auto host = find_python_host(here.executable);
  if (!host) return host.errors();
  auto worker = log.worker(*interpreter);
  if (!worker) return worker;
  worker->arguments = {host->script.string(),
                       "--library",
                       host->library.string(),
                       "--torch",
                       RETORT_TORCH_REQUIREMENT,
                       "--events-fd",
                       "3"};
  worker->is_hosted = true;
  worker->variables.emplace_back("PYTHONDONTWRITEBYTECODE=1");
  return worker;
}

Diagnostics refused_hooks(const Value& recipe, const Composition& composition,
                          const PythonSurroundings& here) {
  if (!has_hooks(recipe)) return {};
  const auto trusted = TrustedCode::read(here.trusted);
  if (!trusted) return trusted.errors();
  return untrusted_hooks(recipe, composition.overrides, *trusted);
}

Diagnostics untrusted_code(const Value& recipe, const SchemaSet& schemas, Sources& sources,
                           const PythonSurroundings& here) {
  const bool has_code =
      recipe.map() && std::ranges::any_of(*recipe.map(), [&](const Entry& entry) {
        const Value* const kind = entry.value.map() ? entry.value.find("kind") : nullptr;
        const Kind* const known = kind && kind->text() ? schemas.kind(*kind->text()) : nullptr;
        return known && known->runs_python();
      });
  if (!has_code) return {};
  const auto made = make_recipe(recipe, schemas, &sources);
  if (!made) return made.errors();
  auto graph = compile(*made, schemas);
  if (!graph) return graph.errors();
  return allow_code_of(*graph, python_entries(*graph, schemas), recipe, here);
}

}  // namespace runner
