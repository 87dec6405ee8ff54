#include <algorithm>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/recipe_help.h"

namespace runner {

ExitCode help_about_recipe(const NamedRecipe& recipe, Console& console) {
  const SchemaSet& schemas = shipped_schemas();
  Sources& sources = console.sources;
  auto composer = open_without_overrides(recipe, schemas, sources);
  if (!composer) return report(console, composer.errors());
  const Outline outline(*composer, recipe.overrides, schemas, sources);
  const std::string file = composer->file().string();
  const auto source = std::ranges::find(sources.all(), file, &SourceText::name);
  console.out << '\n'
              << recipe_help(file, source == sources.all().end() ? "" : source->contents, outline);
  return ExitCode::kDone;
}

}  // namespace runner
