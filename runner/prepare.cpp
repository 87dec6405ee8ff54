#include "runner/prepare.h"

#include <stdexcept>

#include "runner/installation.h"

namespace runner {

SchemaSet shipped_schemas() {
  auto schemas = SchemaSet::load(embedded_schemas());
  if (!schemas) throw std::logic_error("shipped schema: " + schemas.errors().front().message);
  return std::move(*schemas);
}

std::vector<std::filesystem::path> search_path(const Arguments& arguments) {
  std::vector<std::filesystem::path> roots = {"."};
  roots.insert(roots.end(), arguments.config_dirs.begin(), arguments.config_dirs.end());
  roots.push_back(share_folder());
  return roots;
}

Result<Composition> compose(const Arguments& arguments, const SchemaSet& schemas, Sources& sources) {
  const Declared declared = [&](const Value& recipe, std::span<const std::string> path) {
    return schemas.declared(recipe, path);
  };
  ComposeRequest request{
      .recipe = arguments.recipe, .overrides = arguments.overrides, .search_path = search_path(arguments)};
  request.declared_keys = [&](const Value& recipe, std::span<const std::string> path) {
    return schemas.declared_keys(recipe, path);
  };
  auto composition = compose(request, real_file_system(), declared, sources);
  if (!arguments.strict || !composition || composition->warnings.empty()) return composition;
  for (Diagnostic& warning : composition->warnings) warning.severity = Severity::kError;
  return std::move(composition->warnings);
}

Result<Prepared> prepare(const Arguments& arguments, const SchemaSet& schemas, Sources& sources) {
  auto composition = compose(arguments, schemas, sources);
  if (!composition) return composition.errors();
  auto recipe = make_recipe(composition->recipe, schemas);
  if (!recipe) return recipe.errors();
  auto graph = compile(*recipe, schemas);
  if (!graph) return graph.errors();
  return Prepared{std::move(*composition), std::move(*recipe), std::move(*graph)};
}

}  // namespace runner
