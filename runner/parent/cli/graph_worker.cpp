#include "runner/parent/cli/graph_worker.h"

#include <algorithm>
#include <utility>

#include "runner/parent/compile/compile.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/python/allowed_code.h"
#include "runner/parent/python/python_entry.h"
#include "runner/parent/python/python_host.h"
#include "runner/parent/python/trusted_hooks.h"

namespace runner {
namespace {

Diagnostics allow_code_of(Graph& graph, const std::vector<PlacedEntry>& entries,
                          const Value& recipe, const PythonSurroundings& here) {
  const auto trusted = TrustedCode::read(here.trusted);
  if (!trusted) return trusted.errors();
  CodeFolders folders{.working = graph.working_folder, .recipe = {}};
  if (recipe.where.source)
    folders.recipe = std::filesystem::path(recipe.where.source->name).parent_path();
  return allow_code(graph, entries, folders, *trusted);
}

}  // namespace

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
  worker->arguments = {host->script.string(), "--library", host->library.string(), "--events-fd",
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
        return known && known->runs_python;
      });
  if (!has_code) return {};
  const auto made = make_recipe(recipe, schemas, &sources);
  if (!made) return made.errors();
  auto graph = compile(*made, schemas);
  if (!graph) return graph.errors();
  return allow_code_of(*graph, python_entries(*graph, schemas), recipe, here);
}

}  // namespace runner
